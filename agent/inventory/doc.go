// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory has the devices of a node: one record per device. Both fronts to kubelet, DRA
// plugin and device plugin, serve these records.
//
//	sysfs, simulation ─► Source ─► Inventory ─┬─► DriverResources ─► agent/resourceslice
//	                                          ├─► devicetree      ─► agent/deviceplugin
//	                                          └─► CDI edits       ─► agent/draplugin
//
// A Source reports a complete Inventory at each change. A reported Inventory is never modified, so
// that readers can share it.
//
// The Ledger records which device is in use, and through which front. The device plugin does not
// allocate a device that a ResourceClaim holds, and vice versa.
package inventory
