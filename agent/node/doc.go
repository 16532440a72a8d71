// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node makes a node of the Kubernetes API of anything that can run pods.
//
// It offers the names, signatures and meaning of virtual-kubelet's package of
// this name, so that a program changes an import path and nothing else. A
// provider says how the node is, and runs pods:
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
// A NodeController keeps one Node. It creates it, pings the provider, renews the
// lease of the node as long as the pings succeed, and writes the status without
// touching what others wrote. If a ping fails, the condition Ready says why.
//
// A PodController brings a provider's pods in line with those that are bound to
// its node. Its events come from an informer, or from outside through its entry points:
// [PodController.StorePod] and those whose names end in Enqueue.
//
// Package nodeutil makes both of one provider, with all that they need, and package api
// answers what the API server asks a node for.
//
// Errors of providers are classified by package errdefs. A provider that panics
// ends its controller with an error, and no other one's.
//
// The files: nodeprovider.go and podprovider.go are what providers implement;
// nodecontroller.go, nodeoptions.go, ping.go, lease.go and nodepatch.go are the
// NodeController; podcontroller.go with its entry points, podsync.go (Kubernetes to
// provider), podstatus.go (provider to Kubernetes), poddelete.go and poll.go
// are the PodController.
package node
