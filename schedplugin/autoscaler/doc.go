// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package autoscaler stores the DRA objects of a simulated cluster, for programs that run the scheduler
// framework without a scheduler. It replaces package
// k8s.io/autoscaler/cluster-autoscaler/simulator/dynamicresources/snapshot: names, signatures and meaning are
// the same. So cluster-autoscaler only has to change the import path (docs/cluster-autoscaler.md). It works
// with the in-tree plugin and with Dray.
//
//	cluster-autoscaler ── Fork, AddClaims, ReservePodClaims … ──► Snapshot ── changed claims ──► plugin Dray
//	                                                                 │
//	scheduler framework ◄── slices, claims, classes (SharedDRAManager) ┘
//
// Differences:
//
//   - A claim is never changed in place. Plugins can compare claims by pointer.
//   - The plugin Dray asks which claims changed, and for the claim of a pod's extended resources. It does not list all
//     claims for each pod.
//   - The allocated state of all claims is kept up to date for plugins that ask for it. It is not computed for each pod.
//   - Results with admin access do not count as allocated (KEP-5018).
//   - Slices have the taints of the DeviceTaintRules that the Snapshot was given (KEP-5055).
//   - Shares of devices count as shares, if the gate DRAConsumableCapacity is on (KEP-5075).
//   - The claim for a pod's extended resources is removed together with the pod (KEP-5004).
//
// # Where things are
//
//	snapshot.go   Snapshot, Fork, Commit, Revert
//	claims.go     claims of pods: add, reserve, unreserve, remove
//	slices.go     slices of nodes, and the list of all slices
//	tracker.go    SharedDRAManager: what the framework and its plugins read
//	changes.go    which claims changed, for the plugin Dray
//	allocated.go  the allocated state of all claims, for the in-tree plugin
//	journal.go    a map with forks
//	profile.go    replaces the in-tree plugin in profiles that are made in Go
//	clone.go      what cluster-autoscaler's tests need
//
// Fork, Commit and Revert take time in proportion to what changed since the Fork. A Snapshot may be read by
// several goroutines, as the framework does while it filters nodes. While it is changed, no other goroutine may
// use it.
package autoscaler
