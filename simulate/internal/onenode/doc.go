// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package onenode asks the allocator what pods get of the devices of one node, and remembers the answers
// for all nodes that are like it.
//
//	slices of a node ──ReadSet──► content  equal for nodes that no question tells apart
//	content + Uses ─────────────► State    one for all nodes that are in it
//	State × Question ───────────► Answer   with the next State; remembered
//
// A [Question] is what the claims of a pod ask for. The [ReadSet] is what all questions so far read of
// devices. Two nodes whose devices differ in nothing else have the same content, so each step is
// searched once, by the allocator on one node with nothing around it, and looked up from then on. Pools
// that several nodes reach are [Surroundings]: a question for which no device of such a pool can serve
// does not see them; for others, what is in use of the pool is part of what is remembered.
//
// Here are no pods, no CPU, no claims by name and no templates: what package simulate makes of nodes
// ends in an [Inventory] and a State. All types are immutable or safe for concurrent use, but for a Call,
// which one goroutine has.
//
// # Where things are
//
//	asker        what is known of a cluster: classes, numbers, the read set
//	question     what claims ask for, and what that reads
//	answer       asking about a state
//	snapshot     one node as the allocator sees it
//	state        what is in use, and the answers that are remembered with it
//	readset      what tells devices apart
//	inventory    a node with the devices that it alone has
//	utilization  which part of its pools is in use
//	shared       pools of several nodes
package onenode
