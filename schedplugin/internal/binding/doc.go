// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding writes allocations and reservations of claims to the API server, and updates the
// scheduler's caches.
//
//	SignalPending ──► in flight ── Bind ──► in the API server ──► EndInFlight
//	                      └── a later step failed ──► CancelInFlight, Unreserve, DeleteCreated
//
// A claim is in flight from Reserve to the end of PreBind: its devices are in use for all pods, but
// the API server does not have the allocation yet. Devices stay in use while it is unknown whether
// an update was made.
//
// # Where to look
//
//	writer.go    Writer: allocation and reservation, and updates without a clear answer
//	flight.go    claims in flight, and claims that are assumed ahead of the informer
//	extended.go  claims for extended resources
//	await.go     waiting for binding conditions
//	release.go   deallocating claims, and removing consumers
package binding
