// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourceslice publishes the devices of a DRA driver as ResourceSlices.
//
// It offers the names, signatures and meaning of k8s.io/dynamic-resource-allocation/resourceslice
// v0.37, so that a driver changes an import path and nothing else. A Controller gets the desired
// pools from the driver, and reconciles the API server with them until it is stopped:
//
//	driver ── Update ──► desired pools ─┐
//	                                    ├─► plan ─► delete, update, create ─► API server
//	API server ── watch ─► slices seen ─┘                                         │
//	      ▲───────────────────────────────────────────────────────────────────────┘
//
// A pool is the unit of work. Pools are published independently of each other: one that is invalid
// or rejected does not delay others.
//
// The controller writes as little as the API's rules for pools permit. Consumers must never mix
// slices of a pool from before and after a change, so a change of more than one slice raises the
// pool's generation and rewrites all its slices. A change of one slice is a single write.
//
// Split distributes any number of devices over valid slices. TaintAll taints every device of a
// driver that can no longer observe its hardware. Controller.Withdraw deletes all slices, for a
// driver that is uninstalled.
//
// The files: options.go and resources.go have the API for drivers; controller.go takes updates;
// desired.go has the desired pools; watch.go the stored slices; plan.go computes what to write;
// sync.go writes.
package resourceslice
