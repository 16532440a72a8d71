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
// Node selection, taints of nodes, CPU and other resources are those of package nodefit; how pods
// come to their claims is that of package podclaims. Pod affinity, spread constraints, host ports, volumes,
// scheduling gates and the scheduler's name are not looked at: Result.NotLookedAt says so of pods that have them, and
// Options.RefuseNotLookedAt makes them errors. Options.NodeFit can add such rules as far as they do not change with pods.
//
// A node on which the search was given up, or failed, is neither a yes nor a no. It is counted apart,
// as undecided.
//
// # How it works
//
// What pods get of the devices of one node is the matter of internal/onenode: it asks the allocator, and
// remembers the answers for all nodes that are in the same state. This package keeps which node is in which
// state, what else is used of it, and who has which claim. Its questions are look-ups on many nodes.
//
// # Where things are
//
// Files use those above them in this list. A test counts the exceptions.
//
// What there is:
//
//	cluster            input, how it changes, and options
//	world              a version of a cluster: nodes, the pods on them, and all that is remembered
//	claim              claims that several pods use, or that exist already
//	any                nodes of which the template is not decided
//	template           nodes that do not exist, values of theirs that are not known, and sets of nodes
//	kind               what pods ask for, and what tells kinds of them apart
//
// What pods of a kind get:
//
//	asked              the question of a kind as claims are now, with claims that are to match others, beyond resource.k8s.io/v1
//	answer             the answer of a node, decided or not
//
// Clusters, what-if included:
//
//	state, sim         State and Sim
//	expect             devices of real nodes that are not published yet, and real nodes that come
//	read, with         Open and Update; single changes
//
// Questions:
//
//	result             what was placed, with claims as the API server would hold them
//	policy, place      choosing nodes, placing pods
//	fit                how many fit; what one node has left, for searches over what fits on it
//	put                single pods that leave a node, or come to one that was chosen elsewhere
//	evict              pods that leave a node: Drain, Drainable, Victims
//	merge              what two Sims did, put together
//	together, gang     several pods, all or none, on nodes and devices that have a value in common
//	why                why not more
//
// Below are packages that know nothing of a cluster: internal/table has lists and bags of which versions share what is equal,
// internal/amounts CPU and the like, internal/narrow requests with one more condition, internal/ranking numbers in the order of scores,
// internal/subsets sets in the order of cost, internal/onenode what pods get of the devices of one node.
package simulate
