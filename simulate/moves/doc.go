// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package moves tells which pods to move so that others fit or nodes are empty, where each goes, and in which order.
//
//	State, pods that wait ───┐
//	what moving a pod costs ─┼─► Find ─► Plan: steps, what they cost, what they cost at least
//	disruption budgets ──────┤
//	                         └─► Free ─► Freeing: a Plan after which more nodes are empty, or more whole devices free
//
// Nothing is changed: somebody else evicts the pods, step by step. After each step every pod has a place, but for as many as
// Plan.Room says.
//
// # Where things are
//
//	question  Question, Plan, and Find: sets of pods in the order of what they cost
//	order     in which order, and to which nodes, the pods of a set go
//	sequence  in which order pods move of which the nodes are known
//	chains    first plans: a pod takes the place of others, and these that of others
//	domain    nodes that have in common what wanted pods need
//	least     what each plan costs at least
//	monotone  whether fewer free devices may take more of the wanted pods
//	gain      the bound by how many more nodes have a pod of a kind
//	prices    the bound by prices for places
//	goal      Goal, Freeing, and Free
//	target    nodes and devices that can be free, and which pods keep them in use
//	greedy    a first plan: one target after the other
//	sets      sets of pods in the order of what they cost
//	bound     how many can be free at most
package moves
