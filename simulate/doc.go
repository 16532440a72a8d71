// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate answers what-if questions about devices: which pods fit where, how many more, how
// many nodes of a kind are missing, which nodes can go. The answers are those of kube-scheduler, for
// clusters that do not exist.
//
//	Cluster ─Open─► State ──► FitsMany, Drainable, Victims        read only, any number of goroutines
//	                 │  ▲
//	             Sim ▼  │ State
//	                Sim ──► Place, PlaceMany, Put, Evict, Gang,   one goroutine each
//	                        Drain, Add, AddNode, Expect, Remove, Taint, Fork, Commit, Revert
//
// A [State] is immutable. A [Sim] is a State that changes; making one, taking its State, Fork, Commit
// and Revert cost as much as copying a small struct, whatever the size of the cluster.
//
// # What is the same
//
// Pods are placed one after the other, with the devices that package allocator picks first. So each
// answer is what asking step by step would give, on a cluster in which the objects really exist.
// Node selection, taints of nodes, CPU and other resources are checked by package nodefit; package podclaims
// resolves the claims of pods. Pod affinity, spread constraints, host ports, volumes, scheduling gates and the
// scheduler's name are not looked at: Result.NotLookedAt lists them, and Options.RefuseNotLookedAt makes such
// pods an error. Options.NodeFit can add such rules, as far as their answers do not change when pods are
// placed.
//
// A node for which the search failed, or ran out of budget, is neither a yes nor a no. It is counted
// separately, as undecided.
//
// # How it works
//
// Package internal/onenode decides which devices of one node a pod gets. It asks the allocator, and caches the
// answer for all nodes in the same state. This package records the state of each node, its other resources, and
// the users of each claim. A question about many nodes is a look-up for each of them.
//
// # Where things are
//
// Files use those above them in this list. A test counts the exceptions.
//
// What there is:
//
//	cluster            input, changes of it, and options
//	taint              taint rules, and taints of nodes that come and go
//	world              one version of the input: nodes, their pods, and the caches
//	claim              claims that several pods use, or that exist already
//	any                nodes whose template is not decided
//	template           nodes that do not exist, unknown values of their attributes, and sets of nodes
//	kind               equivalence classes of pods, and their key
//
// What pods of a kind get:
//
//	needs              what a class of pods needs, given which of its claims are allocated
//	answer             the answer for a node, whose template may be undecided
//
// Clusters, what-if included:
//
//	state, sim         State and Sim
//	expect             devices that real nodes do not publish yet, and real nodes that are added
//	read, with         Open and Update; updates by single changes
//
// Questions:
//
//	result             what was placed, with claims as the API server would store them
//	policy, place      choosing nodes, placing pods
//	fit                how many pods fit, on all nodes or on what one node has left
//	drain              pods that leave with their node: Drain, Drainable
//	put                pods that leave nodes which stay, chosen by the caller or the cheapest; pods put on a chosen node
//	merge              combining the changes of two Sims
//	together, gang     several pods, all or none, on nodes and devices with a value in common
//	why                why no more pods are placed
//
// These packages know nothing of a cluster: internal/table has persistent lists and bags, internal/amounts CPU
// and other resources, internal/ranking numbers ordered by score, internal/subsets sets ordered by cost,
// internal/onenode the devices that pods get on one node.
package simulate
