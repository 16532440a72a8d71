// Package cluster has the pools of a cluster, what nodes reach of them, and what allocated
// claims hold.
//
//	builder.go   following a cluster; slots of pools
//	snapshot.go  the index of pools, from a node to pools
//	gather.go    what a node reaches
//	place.go     what the name of a node decides of that; places.go for a list of nodes
//	statenote.go what the allocator keeps with a place in one state; tally.go with many
//	state.go     a snapshot and what is in use of it
//	holding.go   from a claim's allocation to what it takes; holders.go adds it up
//	lazy.go      states found out as pools are looked at
//	ledger.go    a State that moves: assume, forget, fork, commit, revert, rebase
package cluster
