// Package pools turns ResourceSlices into an index that allocation reads, and keeps
// what allocated claims hold.
//
//	ResourceSlices ──► Builder ──► Snapshot ──► GatherPools(node) ──► NodeView
//	                                  │
//	allocated ResourceClaims ──► Ledger ──► Usage ──► Pool(p) ──► PoolUsage
//	                               │ ▲
//	                          Fork ▼ │ Commit
//	                             Ledger
//
// A [Snapshot] says what there is: pools with their devices, counters and the nodes
// they reach. It is immutable. A [Builder] follows a changing cluster: a changed
// slice makes one new [Pool], all other pools are the same pointers in the next
// Snapshot, so whatever is computed for a *Pool stays valid as long as the pointer
// turns up.
//
// A [NodeView] is what one node reaches, in first-fit order, with the reasons, in
// words, why some pools cannot be used. It is both what allocation works on and
// what a person who debugs wants to see.
//
// A [Ledger] says what is in use. Its state is a [Usage], immutable as well: readers
// take it without a lock and keep it for as long as they like; a fork is a second
// pointer to it.
//
// # Rules
//
// Only slices of a pool's highest generation count, and a newer generation anywhere
// makes older slices obsolete on all nodes. A pool is complete if that generation
// has as many slices, wherever they reach, as their resourceSliceCount says.
// Devices of incomplete and invalid pools stay listed in [Pool] but not in a view.
//
// An allocation names a device by driver, pool and device name. If slices for
// different nodes repeat a name, one allocation has all devices of that name in
// use, and each is charged to the counters.
//
// API objects that are handed in are kept by pointer, never modified, and must not
// be modified by others. Everything except Builder is safe for concurrent use.
//
// # Where to look
//
//	id.go         names of pools and devices, indices, gates
//	source.go     one slice as the builder keeps it; what gates leave out
//	attachment.go room for what the allocator keeps with pools and shapes
//	builder.go    following a cluster; slots of pools
//	index.go      finding the snapshot for a list of slices again: lineage.go follows
//	              a cluster, fingerprint.go recognises it, retention.go forgets it
//	assemble.go   slices → Pool: generation, completeness, devices
//	counters.go   counter sets, what devices consume, invalid pools
//	pool.go       Pool, Slice, Device, look-up by name
//	reach.go      node selection of slices and devices
//	routes.go     from a node to the slices of a pool
//	snapshot.go   the index of pools, from a node to pools; sorted.go lists them
//	view.go       GatherPools; place.go does what the name of a node decides, choice.go the rest
//	places.go     the same for a list of nodes
//	statenote.go  what the allocator keeps with a place in one state of use; tally.go with many
//	shape.go      devices alike; shapes.go interns, content.go compares them
//	attribute.go  attributes ready to compare; value.go interns their values
//	groups.go     compatibility groups on a counter set
//	usage.go      what is in use of a pool; edit.go changes it, usagekey.go sums it up
//	cluster.go    what is in use of all pools
//	holding.go    from a claim's allocation to what it takes; holders.go adds it up
//	lazy.go       what is in use of the pools that are looked at
//	ledger.go     Ledger: allocate, release, fork, commit, revert, rebase
package pools
