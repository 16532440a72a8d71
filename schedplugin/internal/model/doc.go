// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model keeps, between pods, what allocation reads: the index of the devices
// there are and the ledger of those in use.
//
//	SharedDRAManager ── slices ──► pools.Index ──► Snapshot ─┐
//	                 ── claims ──────────────────────────────┴► pools.Ledger ──► State ─► View
//
// A scheduler's SharedDRAManager is the source of truth. It can only be asked for what it
// has, so a Model compares that with what it knows, by pointer, and applies the differences.
// Slices are listed for each View. Claims are too, unless the model is Told of changes: then
// it asks for those that changed.
//
// # Claims in flight
//
// Between the Reserve and the PreBind of a pod its claims are allocated in the manager's
// memory alone. The manager is asked about each claim that is not allocated. The claims that
// stand for extended resources are not listed before they are created: whoever reserves one
// tells the Model (Pending).
//
// A claim leaves the claims in flight after it has become visible as allocated. Reading in
// the opposite order, as Observe does where it matters, never misses one.
//
// # Where to look
//
//	model.go    Model, View, Observe
//	claims.go   from a claim to the ledger
//	told.go     which claims to look at: all, or those that changed
//	held.go     a number for what is in use
//	without.go  the same as if some claims held nothing
//	shared.go   one Model for all profiles of a scheduler
package model
