// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package devicetree converts an inventory to the device tree that agent/deviceplugin serves.
//
//	inventory.Inventory ─► Scanner ─► DeviceTree ─► deviceplugin.Manager ─► kubelet
//	                         │ ▲                                              │
//	    what claims hold ────┼─┘ what may be handed out ◄──── Allocate ◄──────┘
//	                         ▼
//	                  inventory.Ledger ◄── what is free again ◄── agent/podresources
//
// The tree has one resource type per type of device. A device that is shared n ways becomes n
// plugin devices.
package devicetree
