// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package onenode decides which devices of one node a pod gets. It asks the allocator, and caches the answers
// for all nodes in the same state.
//
//	slices of a node ──ReadSet──► content  equal for nodes that no question distinguishes
//	content + Uses ─────────────► State    shared by all nodes with this content and use
//	State × Question ───────────► Answer   with the next State; cached
//
// A [Question] is what the claims of a pod ask for. The [ReadSet] is the set of properties of devices that any
// question so far reads. Nodes whose devices agree in these properties have the same content. So each State and
// Question is searched once, by the allocator on a cluster of a single node, and looked up from then on.
// [Surroundings] are the pools that several nodes reach. If no device of such a pool can serve a question, the
// pool is ignored. Otherwise its use is part of the key of the answer.
//
// This package knows no pods, CPU, names of claims or templates. Package simulate reduces nodes to an
// [Inventory] and a State. All types are immutable or safe for concurrent use, except for a Call, which belongs
// to one goroutine.
//
// # Where things are
//
//	asker        the allocator, device classes, interned keys and the read set of a cluster
//	question     what claims ask for, and what they read of devices
//	answer       asking about a state
//	snapshot     one node as the allocator sees it
//	state        the use of devices, and the cached answers for it
//	readset      which devices are equivalent
//	inventory    the devices that belong to one node
//	utilization  the fraction of each pool that is in use
//	shared       pools of several nodes
package onenode
