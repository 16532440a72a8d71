// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node makes anything that can run pods a node of a Kubernetes cluster.
//
// It offers the names, signatures and meaning of virtual-kubelet's package of this name, so that a
// program changes an import path and nothing else. A provider reports the status of the node, and
// runs pods:
//
//	                    ┌─ NodeController ─┐
//	provider ─ Ping ───►│ register, lease, │────► Node, Lease
//	         ─ status ─►│ status           │
//	                    └──────────────────┘
//	                    ┌─ PodController ──────────────────────┐
//	Pods ───────────────►│ from Kubernetes ─► create, update,   │──► provider
//	                    │                    delete            │
//	Pods ◄───────────────│ status from the provider, deletions  │◄── provider
//	                    └──────────────────────────────────────┘
//
// A NodeController manages one Node. It creates the Node, pings the provider, and renews the node's
// lease as long as pings succeed. It writes the status, and leaves fields of other writers alone.
// If a ping fails, the condition Ready says why.
//
// A PodController reconciles a provider's pods with those that are bound to its node. Events come
// from an informer, or from the caller through the methods [PodController.StorePod] and those whose
// names end in Enqueue.
//
// Package nodeutil makes both controllers, their informers and the HTTPS server for one provider.
// Package api serves the requests of the API server to a node.
//
// Errors of providers are classified by package errdefs. If a provider panics, its controller ends
// with an error. Controllers of other providers go on.
//
// The files: nodeprovider.go and podprovider.go are what providers implement;
// nodecontroller.go, nodeoptions.go, ping.go, lease.go and nodepatch.go are the
// NodeController; podcontroller.go with its entry points, podsync.go (Kubernetes to
// provider), podstatus.go (provider to Kubernetes), poddelete.go and poll.go
// are the PodController.
package node
