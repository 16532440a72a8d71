// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package devicetree makes of an inventory what agent/deviceplugin serves.
//
//	inventory.Inventory ─► Scanner ─► DeviceTree ─► deviceplugin.Manager ─► kubelet
//	                         │ ▲                                              │
//	    what claims hold ────┼─┘ what may be handed out ◄──── Allocate ◄──────┘
//	                         ▼
//	                  inventory.Ledger ◄── what is free again ◄── agent/podresources
//
// The tree has one type for each type of device, and n devices for one that is
// shared n ways.
package devicetree
