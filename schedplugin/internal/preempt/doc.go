// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preempt computes which devices are in use if pods are evicted, or if nominated pods get theirs. It chooses no
// victims: DefaultPreemption does, by calling AddPod, RemovePod and Filter of the plugin.
//
//	PreFilter ────────── Preemption.Begin ──► Cycle, for one pod that is being scheduled
//	AddPod, RemovePod ── Cycle.Add, Remove ──► Usage: devices in use after that
//	Filter ───────────── Cycle.Evicted: devices in use without all pods of lower priority
//	PostFilter ───────── Cycle.Nominated, Settled: devices in use once those of victims are free
//
// # Where to look
//
//	preemption.go  Preemption, Cycle
//	nominated.go   where pods are nominated to, and what their claims ask for
//	whatif.go      devices in use with pods removed or added
//	aside.go       devices that are set aside for nominated pods, cached across cycles
//	nodestate.go   the cache key: all of a node that decides which devices are set aside
//	holders.go     which pods on nodes hold claims
//	leaving.go     claims that nobody needs once pods are gone
package preempt
