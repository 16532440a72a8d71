// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package solver chooses devices for requests: a constraint solver over small integers that knows nothing of
// Kubernetes.
//
//	Problem ─► search ─┬─ store     resources and devices in use; all writes are on one trail
//	                   ├─ checks    may this device be chosen now (refuses)
//	                   ├─ ahead     after the first dead end: viable devices, openings
//	                   │    └─ propagators: counting, assignment, cumulative, sums,
//	                   │                    distinct, support, cardinality
//	                   ├─ symmetry  interchangeable devices
//	                   ├─ equals    interchangeable requests and claims
//	                   ├─ nogoods   failed states
//	                   └─ completion  in long searches: the open requests, in another order
//
// # Contract
//
// Solve returns what a search of everything in order would find first: a solution, or a device at which looking
// ends the search. Each of the Rules only prunes what cannot be found first, so any selection of rules has the
// same result. A test compares all rules, each alone, and random selections with a solver that tries
// everything.
//
// # Invariant
//
// A refusal holds for the whole subtree: choices only ever take, so a refused device stays refused further
// down. Negative amounts break this. A problem with them is searched without look-ahead.
//
// # A new kind of constraint
//
// A relation between the values of devices has a kind: a type that implements the interface kind, and an entry
// in the table kinds. Tests and generators of random problems iterate over that table. The solver that tries
// everything must learn the kind separately.
//
// A new reason to refuse a single device goes into the store's checks. The devices
// that it may refuse after a choice go into narrow. What failed states depend on goes into nogoods, and what
// distinguishes devices into alike (symmetry). A rule about several open requests is a propagator: a function, and a line in addPropagators.
//
// # Files
//
//	problem, solver       the input, the rules; the result, buffers
//	search, stops         choices in order; where looking ends the search
//	pairing               devices that match the next request, in the first attempt
//	store                 what choices take, and the trail
//	relation              constraints over the values of the chosen devices
//	ahead, openings       viable devices, the list of propagators; open requests, counting
//	flow, assignment      matching of open requests with devices, and with values that differ
//	support               values that all devices of a relation can have
//	cardinality           values for several relations
//	cumulative            sums of resources: all of a kind, those of a value, each by itself
//	totals                totals over the devices of a request, shares that fill them
//	symmetry, nogoods     interchangeable devices, and failed states
//	equals                interchangeable requests and claims
//	serving               long searches: what devices of the same resources can serve together
//	completion, fullest   long searches: another order of requests; one device filled after another
package solver
