// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mix tells which new nodes to buy for pods that wait, at least cost.
//
//	State, pods that wait ────────┐
//	types of nodes with prices ───┼─► Find ─► Plan: new nodes with their pods, what they cost, what they cost at least
//	limits, room on real nodes ───┘
//
// What fits on a node together is what package simulate says. A choice of such patterns in parts, by a linear programme to which
// patterns are added as they are needed, is the bound. Whole nodes are then taken from it, and for few pods all cheaper choices are tried.
//
// # Where things are
//
//	question  Question and Find: what is asked, as numbers
//	bin       what fits on one node
//	pattern   the pods on one node that are worth most
//	master    the choice in parts, and the bound
//	simplex   linear programmes
//	whole     the choice of whole nodes
//	plan      Plan: the pods on their nodes, and why others have none
package mix
