// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package when predicts when waiting pods can start, given when running pods are expected to end.
//
//	State, expected ends ─┐
//	waiting pods ─────────┴─► Starts ─► for each: at what time, after which ends, on which nodes
//
// It goes from one end to the next on a simulate.Sim. It evicts the pods that have ended, and places those that
// start. The cluster is read once, whatever the number of ends.
//
// # Where things are
//
//	end     when a pod is expected to end: Expected reads the pod and its Job
//	starts  Queue and Starts: the start times of waiting pods, with or without backfill
package when
