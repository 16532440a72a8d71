// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package whatif is about devices as they would be if pods came or went: what preemption asks, and
// what pods find in use that others are nominated to.
//
//	pods on nodes ── Residents ──► Roll ── Abandoned, EvictsAll ──► ledgers without claims
//	View ──► Case: remove, restore, set aside ──► Usage
//	                                    └── Asides: what was set aside, by node
//
// # Where to look
//
//	case.go       Case: a state of devices with pods removed or added
//	aside.go      Asides: devices of nominated pods, remembered from cycle to cycle
//	scene.go      what of a node decides which devices those are
//	residents.go  Residents: which pods on nodes hold claims
//	leaving.go    claims that come free when pods go
package whatif
