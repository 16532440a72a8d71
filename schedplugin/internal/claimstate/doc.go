// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claimstate knows the claims of a pod while that is being scheduled: which there are,
// what became of them, and which pods use them.
//
//	pod ── Source ──► Claim: object, pending allocation, consumer
//	claim ── Index ──► pods that refer to it
//
// It reads what the scheduler has in memory, and writes nothing.
//
// # Where to look
//
//	claim.go       Claim, and what a claim tells by itself
//	source.go      from a pod to its claims
//	extended.go    the claim that stands for extended resources
//	conditions.go  devices that have to get ready before a pod is bound
//	pods.go        which claims a pod names or holds
//	index.go       from a claim to pods
package claimstate
