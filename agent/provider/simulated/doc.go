// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulated is a provider of virtual nodes that runs nothing: its pods say that
// they run, for as long as an annotation or a script tells. One process can have
// thousands of such nodes.
//
//	CreatePod ─ startAfter ─► Running ─ runFor ─► ended with exitCode
//	                             ▲                    │
//	                             └── after 10 s, if the restart policy says so
//
// Pods without a rule run until they are deleted. A Provider is for the pods of one node, or
// of many. It uses no goroutine while nothing happens.
package simulated
