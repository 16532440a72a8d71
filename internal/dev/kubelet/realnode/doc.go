// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs kubelet and containerd as a node of a control plane, on the machine that
// tests run on. Pods of the node are containers of busybox.
//
//	Start ─► folders, files, cgroup ─► process 1 in namespaces of mounts and processes
//	           └─► containerd ─► images ─► kubelet ─► the node is ready
//	Stop ──► process 1 ends, and with it all others and all mounts ─► cgroup and folder are removed
//
// Kubelet has the state of its device plugins in a folder that no option changes. So each node has
// its own [KubeletDir] and [CDIDir], and several nodes run side by side. Whatever else is in the
// machine's file system is the same for all. If the program that started the node ends, process 1
// does, too, whichever way. Then only folders of temporary files and empty cgroups are left.
//
// # What it needs
//
// Linux, root, runc, util-linux, CNI's plugins and a static busybox. "make kubelet-programs" builds
// the rest. Kubelet sets some parameters of the kernel, such as vm.overcommit_memory, and nobody
// sets them back.
package realnode
