// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process is a provider of virtual nodes that runs the commands of containers as
// processes of this machine. It is for demonstrations and tests, in which a pod really
// prints the devices that it got. It needs Linux.
//
//	CreatePod ─► check each field ─► a supervisor, which outlives this process
//	DeletePod ─► SIGTERM to each container ─ grace ─► SIGKILL
//	New ───────► finds the pods of an earlier provider, and their supervisors
//
// # Contract
//
// A container needs a command; images are not run. References to variables, such as $(NAME),
// are expanded as kubelet does. Each field of a pod is honoured, is harmless for a reason
// that fieldRules gives, or is refused: CreatePod then returns an error of the class
// InvalidInput that names the field and says why. Fields that this package does not know
// are refused.
//
// A process has the environment of its pod and its devices, a standard PATH, HOME and
// HOSTNAME, and nothing of the provider's. It runs as the user and with the groups of its
// pod, as nobody if the pod names none, and as root only if Options.AllowRoot is set. If the
// provider is not root, processes run as the provider's user, and pods that name
// another one are refused. No process has capabilities, gets new privileges, or may make
// system calls that container runtimes deny by default.
//
// A pod has its own network (with a loopback interface only, unless it asks for the
// machine's), IPC, host name and /dev/shm; a container its own process numbers. A process
// sees the files of the machine, and reads and writes what its user may.
//
// Limits of CPU and memory are honoured where the machine has cgroup v2, and refused elsewhere. A
// volume of the kind emptyDir is a folder of the pod, mounted where the machine has a folder.
// Probes are run by the supervisor of the pod.
//
// Of the devices of a container, the environment variables and groups of CDI specs are applied,
// and mounts and device nodes that have the same path in the container as outside.
//
// # Main
//
// The supervisor of a pod is the program itself, started again. Programs that use this package
// call Main first thing in their main function.
package process
