// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusal says why pods get no devices: a short reason for each node, an Event for people,
// and for queueing hints what may help.
//
//	answer of a node ── Reasons ──► NodeRefusals ──► EventLimiter: an Event, if its reasons are new
//	                                     └─────────► Endings: what kept the pod from nodes in its last attempt
//
// # Where to look
//
//	refusal.go  NodeRefusals: which nodes are refused for what
//	wording.go  Reasons: short reasons without names of devices
//	summary.go  the text of an Event
//	limiter.go  EventLimiter: when an Event is written
//	ending.go   Endings: why the last attempt of a pod failed
package refusal
