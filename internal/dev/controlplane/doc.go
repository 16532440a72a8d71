// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real Kubernetes control plane on this machine: etcd,
// kube-apiserver, kube-controller-manager and a scheduler, each a process of its own, on
// loopback addresses and ports that were free. There are no kubelets: nodes are API
// objects, and somebody else plays what happens on them.
//
//	Start ─► etcd ─► kube-apiserver ─┬► kube-controller-manager
//	                                 └► scheduler    stop, kill, start again
//	Stop: the other way round
//
// # Contract
//
// The binaries are given; nothing is built or downloaded. Everything a control plane
// writes is in one folder, which Stop removes unless [ControlPlane.KeepFolder] was called.
// When Start fails nothing keeps running, the error ends with what the process in question
// wrote last, and the folder stays. Certificates are made for the occasion by an authority
// that exists in memory only. Authorization is Node and RBAC: everybody but the
// administrator can do what roles allow, the scheduler too.
//
// A ControlPlane is for use by one goroutine, but for the clients that it configures.
//
// # Where things are
//
//	controlplane, options   Start, Stop, and what may be chosen
//	use                     both around a function
//	binaries                where the programs are
//	component               one process: launch, wait until ready, terminate, kill
//	etcd, apiserver,        with which arguments each is started
//	controllers, scheduler
//	program                 others beside it, such as agents of nodes
//	another                 further schedulers, for instance replicas with a lease
//	outage                  the API server paused, etcd killed and started again
//	authority, identity     certificates, and kubeconfigs of users
//	ports                   addresses that nobody listens on
package controlplane
