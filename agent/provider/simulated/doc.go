// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulated is a provider of virtual nodes that starts no processes. It reports pods as
// running, for as long as an annotation or a script says. One process can run thousands of such
// nodes.
//
//	CreatePod ─ startAfter ─► Running ─ runFor ─► ended with exitCode
//	                             ▲                    │
//	                             └── after 10 s, if the restart policy says so
//
// Pods without a rule run until they are deleted. A Provider may have the pods of one node or of
// many. Idle pods need no goroutine.
package simulated
