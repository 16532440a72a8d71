// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process is a provider of virtual nodes that runs the commands of containers as processes
// of this machine. It is for demonstrations and tests, in which pods run and print the devices that
// they got. It needs Linux.
//
//	CreatePod ─► check each field ─► a supervisor, which outlives this process
//	DeletePod ─► SIGTERM to each container ─ grace ─► SIGKILL
//	New ───────► finds the pods of an earlier provider, and their supervisors
//
// # Contract
//
// A container needs a command; images are not run. References to variables, such as $(NAME), are
// expanded as kubelet does. Each field of a pod's spec is implemented, ignored for a reason that
// fieldRules gives, or refused. If it is refused, CreatePod returns an error of the class
// InvalidInput with the field and the reason. Unknown fields are refused.
//
// A process has the environment of its pod and its devices, and a standard PATH, HOME and HOSTNAME.
// It inherits no variables from the provider. It runs as the user and with the groups of its pod,
// by default as nobody. It runs as root only if Options.AllowRoot is set. If the provider is not
// root, processes run as the provider's user, and pods with another user are refused. No process
// has capabilities, gets new privileges, or may make system calls that container runtimes deny by
// default.
//
// A pod has its own namespaces for network, IPC and host name, and its own /dev/shm. Its network
// has a loopback interface only, unless hostNetwork is set. A container has its own PID namespace.
// A process sees the files of the machine, with the permissions of its user.
//
// Limits of CPU and memory need cgroup v2, and are refused without it. An emptyDir volume is a
// folder of the pod. It can be mounted only where the machine has a folder. Probes are run by the
// supervisor of the pod.
//
// From CDI specs, environment variables and groups are applied. Mounts and device nodes are
// accepted if their path is the same in the container and on the machine.
//
// # Main
//
// The supervisor of a pod is the same program, started again. Programs that use this package call
// Main first in their main function.
package process
