// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package when tells at what time pods that wait can start, given when pods that run are expected to end.
//
//	State, expected ends ─┐
//	pods that wait ───────┴─► Starts ─► for each: at what time, after which ends, on which nodes
//
// It goes from one end to the next on a simulate.Sim: the pods that have ended are evicted, those that start are placed.
// The cluster is read once, however many ends there are.
//
// # Where things are
//
//	end     when a pod is expected to end: Expected reads what it and its Job say
//	starts  Queue and Starts: the times of pods that wait, with and without backfill
package when
