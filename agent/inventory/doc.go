// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory holds what is known of a node's devices: one record per
// device, from which both of kubelet's fronts are fed.
//
//	sysfs, simulation ─► Source ─► Inventory ─┬─► DriverResources ─► agent/resourceslice
//	                                          ├─► devicetree      ─► agent/deviceplugin
//	                                          └─► CDI edits       ─► agent/draplugin
//
// A Source reports an Inventory as a whole each time something changed. What is
// in an Inventory is never modified after it was reported, so that all readers
// may share it.
//
// The Ledger says which device is in use, and through which front: a device
// that a ResourceClaim holds is not handed out by the device plugin, and the
// other way round.
package inventory
