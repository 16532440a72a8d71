// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding writes to the API server what was decided about claims, and keeps the
// scheduler's memory in step with it.
//
//	Announce ──► in flight ── Bind ──► in the API server ──► Land
//	                 └── Recall ◄── a later step failed ──► Unreserve, Unmake
//
// A claim is in flight from Reserve to the end of PreBind: its devices are in use for all pods,
// and the API server does not know. Devices stay in use while it is not known whether an update
// was made.
//
// # Where to look
//
//	writer.go    Writer: allocation and reservation, and updates in doubt
//	flight.go    claims in flight, and claims that the informer has not seen
//	extended.go  claims for extended resources
//	await.go     devices that have to get ready
//	release.go   claims that are given up
package binding
