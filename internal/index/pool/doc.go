// Package pool makes one Pool of the slices of a resource pool, and says what nodes reach
// of it and what is in use of it.
//
//	ResourceSlice ──► Source ──► Assemble ──► Pool ──► View (of a node)
//	                                           └─────► Usage ──► Edit ──► Usage
//
//	id.go       names and positions of pools, devices and counters; gates
//	source.go   one slice as the builder keeps it; what gates leave out
//	assemble.go generation, completeness, devices
//	counters.go counter sets, what devices consume, invalid pools
//	pool.go     Pool, Slice, Device, look-up by name
//	reach.go    node selection of slices and devices
//	routes.go   from a node to the slices of a pool
//	choice.go   pools of which selectors choose the nodes
//	view.go     what a node reaches
//	usage.go    what is in use; edit.go changes it, usagekey.go sums it up
//	groups.go   compatibility groups on a counter set
package pool
