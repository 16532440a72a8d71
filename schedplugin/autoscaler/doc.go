// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package autoscaler holds the objects of dynamic resource allocation in a simulated cluster, for
// programs that run the scheduler framework without a scheduler. It takes the place of package
// k8s.io/autoscaler/cluster-autoscaler/simulator/dynamicresources/snapshot: names, signatures and
// meaning are the same, so changing the import path is what cluster-autoscaler has to do to its
// code (docs/cluster-autoscaler.md). It works with the in-tree plugin and with Dray.
//
//	cluster-autoscaler ── Fork, AddClaims, ReservePodClaims … ──► Snapshot ── claims that changed ──► plugin Dray
//	                                                                 │
//	scheduler framework ◄── slices, claims, classes (SharedDRAManager) ┘
//
// What is different:
//
//   - A claim is never changed in place. Plugins can recognise objects by pointer.
//   - The plugin Dray asks which claims changed, and which one is for the extended resources of a pod,
//     and does not list all of them for each pod.
//   - What all claims hold is not added up for each pod, for plugins that ask for the sum.
//   - Results with admin access do not count as allocated (KEP-5018).
//   - Slices have the taints of the DeviceTaintRules that the Snapshot was given (KEP-5055).
//   - Shares of devices count as shares, if the gate DRAConsumableCapacity is on (KEP-5075).
//   - The claim that stands for extended resources of a pod goes with the pod (KEP-5004).
//
// # Where things are
//
//	snapshot.go   Snapshot, Fork, Commit, Revert
//	claims.go     claims of pods: added, reserved, taken back, removed
//	slices.go     slices of nodes, and the list of all
//	tracker.go    what the framework and its plugins see
//	changes.go    which claims changed, for the plugin Dray
//	allocated.go  what all claims hold, for the in-tree plugin
//	journal.go    a map with forks
//	profile.go    the plugin Dray in profiles that are made in Go
//	clone.go      what cluster-autoscaler's tests need
//
// Fork, Commit and Revert cost what changed since the Fork. A Snapshot may be read by several
// goroutines, as the framework does while it filters nodes, and changed by one that is alone.
package autoscaler
