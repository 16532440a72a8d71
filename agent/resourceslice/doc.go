// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourceslice publishes what a DRA driver manages as ResourceSlices.
//
// It offers the names, signatures and meaning of
// k8s.io/dynamic-resource-allocation/resourceslice v0.37, so that a driver
// changes an import path and nothing else. A Controller is told what the driver
// wants to see published, and keeps the API server that way until it is stopped:
//
//	driver ── Update ──► desired pools ─┐
//	                                    ├─► plan ─► delete, update, create ─► API server
//	API server ── watch ─► slices seen ─┘                                         │
//	      ▲───────────────────────────────────────────────────────────────────────┘
//
// A pool is the unit of work. Pools are published independently of each other:
// one that is invalid, or that the API server rejects, holds up no other.
//
// Writes are as few as the API's rules for pools permit. Consumers must never
// mix slices of a pool from before and after a change, so a change of more than
// one slice raises the pool's generation and rewrites all its slices. A change
// of one slice is a single write.
//
// Split makes valid slices of any number of devices. TaintAll taints every device
// of a driver that lost sight of its hardware. Controller.Withdraw deletes what
// was published, for a driver that is removed in good order.
//
// The files: options.go and resources.go are what drivers see; controller.go
// takes updates; desired.go is what drivers want; watch.go is what the API server
// has; plan.go says what to write and is pure; sync.go writes.
package resourceslice
