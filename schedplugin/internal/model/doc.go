// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model keeps the input of allocation between scheduling cycles: the index of devices
// and the ledger of those in use.
//
//	SharedDRAManager ── slices ──► pools.Index ──► Snapshot ─┐
//	                 ── claims ──────────────────────────────┴► pools.Ledger ──► State ─► View
//
// The source is the scheduler's SharedDRAManager. It only has lists and look-ups, so a Model compares
// the objects with those of the last observation, by pointer, and applies the differences. Slices are
// listed for each View. So are claims, unless events or a tracker report changes: then the model looks
// up only those that changed.
//
// # Claims in flight
//
// Between Reserve and PreBind, only the manager has the allocation of a claim. So Observe calls
// GetPendingAllocation for each claim that is not allocated. A claim for extended resources is not
// listed before it is created: Reserve adds it with Model.Pending.
//
// The manager has the written allocation of a claim before the claim ceases to be in flight. So
// Observe reads pending allocations first, and misses none.
//
// # Where to look
//
//	model.go    Model, View, Observe
//	claims.go   from a claim to the ledger
//	changes.go  which claims to observe: all, or those that changed
//	since.go    the same with a tracker that reports changes
//	held.go     a hash of what is in use
//	without.go  ledgers that lack some claims
//	shared.go   one Model for all profiles of a scheduler
package model
