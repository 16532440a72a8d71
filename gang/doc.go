// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gang answers one question about several pods: is there a node for each of them, with devices for all?
//
// kube-scheduler places one pod after the other: each pod takes the first devices that fit, and nothing
// reconsiders them. Ask does that first. If all pods get a place, that is the answer, device for device.
// Otherwise it plans the pods together:
//
//	pods ─► units ─► kinds                       how many of each kind does a node take?
//	(pods that share a claim go together)                     │ one joint problem for each node
//	                                                          ▼
//	                          pack: is there room for all?  ─► no: exact, or not (see Result)
//	                                                          │ yes
//	                                                          ▼
//	   each unit in turn: its first alternatives with which the others still fit, on the first node where they do
//	                                                          │
//	                                                          ▼
//	                                  the first devices of the joint problem of each node
//
// The allocator decides whether the pods of one node fit. This package decides which pods these are. Limits
// other than devices, such as CPU, are up to the caller: see Question.Room.
package gang
