// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusal says why pods do not get devices: node by node in few words, to people in an
// Event, and to the scheduler as what may cure it.
//
//	answer of a node ── Reasons ──► Book ──► Notes: an Event, if it says something new
//	                                  └────► Endings: what stood in the way at last
//
// # Where to look
//
//	refusal.go  Book: which nodes are refused for what
//	wording.go  Reasons: an explanation in few words, without names
//	summary.go  the text of an Event
//	notes.go    Notes: when an Event is written
//	ending.go   Endings: how the last attempt of a pod ended
package refusal
