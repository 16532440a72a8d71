// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preempt knows devices as they would be if pods came or went: what preemption asks, and
// what pods find in use that others are nominated to. It chooses no victims. That is for DefaultPreemption, which has
// the plugin ask here.
//
//	PreFilter ────────── Preemption.Begin ──► Cycle, for one pod that is being scheduled
//	AddPod, RemovePod ── Cycle.Add, Remove ──► Usage: devices in use as if
//	Filter ───────────── Cycle.Evicted: would there be devices without all pods of lower priority
//	PostFilter ───────── Cycle.Nominated, Settled: do they come free, of pods that were evicted already
//
// # Where to look
//
//	preemption.go  Preemption, Cycle
//	nominated.go   where pods are nominated to, and what their claims ask for
//	whatif.go      a state of devices with pods removed or added
//	aside.go       devices that are set aside for nominated pods, remembered from cycle to cycle
//	nodestate.go   what of a node decides which devices those are
//	holders.go     which pods on nodes hold claims
//	leaving.go     claims that come free when pods go
package preempt
