// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claimstate finds the claims of a pod while it is being scheduled, their allocations,
// pending ones included, and the pods that use a claim.
//
//	pod ── Source ──► Claim: object, pending allocation, consumer
//	claim ── Index ──► pods that refer to it
//
// It reads the scheduler's caches, and writes nothing.
//
// # Where to look
//
//	claim.go       Claim, and what can be read from one claim
//	source.go      from a pod to its claims
//	extended.go    the claim for extended resources
//	conditions.go  binding conditions of devices
//	pods.go        which claims a pod refers to or holds
//	index.go       from a claim to pods
package claimstate
