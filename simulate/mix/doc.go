// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mix finds the cheapest set of new nodes for waiting pods.
//
//	State, waiting pods ──────────┐
//	types of nodes with prices ───┼─► Find ─► Plan: new nodes with their pods, their cost, a lower bound of the cost
//	limits, room on real nodes ───┘
//
// This is a bin packing problem. A pattern is a set of pods that fit together on one node, as package simulate
// decides. A linear programme chooses fractions of patterns, which are added by column generation. It gives the
// lower bound. Its solution is then rounded to whole nodes. For few pods, all cheaper choices are tried.
//
// # Where things are
//
//	question  Question and Find: reads the question into numbers
//	bin       what fits on one node
//	pattern   the most valuable pattern of a node, a knapsack problem
//	master    the linear programme over patterns, and the lower bound
//	simplex   linear programmes
//	whole     rounding to whole nodes, and exact search
//	plan      Plan: the pods on their nodes, and why others are left
package mix
