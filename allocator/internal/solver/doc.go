// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package solver chooses devices for requests: a constraint solver over small integers that knows
// nothing of Kubernetes.
//
//	Problem ─► search ─┬─ store     what choices have taken; every write is on one trail
//	                   ├─ checks    may this device be chosen now (refuses)
//	                   ├─ ahead     after the first dead end: viable devices, openings
//	                   │    └─ propagators: counting, assignment, cumulative, sums,
//	                   │                    distinct, support, cardinality
//	                   ├─ symmetry  devices that nothing tells apart
//	                   ├─ equals    requests and claims that want the same
//	                   ├─ nogoods   states below which it has failed
//	                   └─ completion  after many steps: what is open, in another order
//
// # Contract
//
// Solve returns what trying everything in order would find first: a solution, or a device at which
// looking ends the search. Each of the Rules only leaves out what cannot be found first, so any
// selection of them has the same result; a test compares all of them, each alone and random
// selections with a solver that tries everything.
//
// # Invariant
//
// A refusal is for good: choices only ever take, so a device that is refused stays refused further
// down. (Amounts below zero break this. Such a problem is searched without looking ahead.)
//
// # A new kind of constraint
//
// A relation between the values of devices is a kind: a type that has all that the search asks of one, so that
// none of it can be forgotten, and an entry in the table of kinds. The tests of kinds take theirs from that
// table, as random problems do, and the solver that tries everything has to learn what the kind means.
//
// What keeps single devices from being chosen for another reason goes into the store's checks, what a choice may
// stand against because of it into narrow, what failed states depend on into their keys (nogoods), and what tells
// devices apart into alike (symmetry). What can be told ahead of several open requests is a propagator: a
// function, and a line in addPropagators.
//
// # Files
//
//	problem, solver       the input, the rules; the result, memory
//	search, stops         choices in order; where looking ends the search
//	pairing               devices for the next request, which the first attempt tries to match
//	store                 what is taken, and taking it back
//	relation              what devices that are chosen together have to agree in
//	ahead, openings       viable devices, the list of propagators; open requests, counting
//	flow, assignment      matching of open requests with devices, and with values that differ
//	support               values that all can have
//	cardinality           values for several relations
//	cumulative            sums of resources, of all, of the devices of a value, and of each by itself
//	totals                totals that devices give together, shares that fill them
//	symmetry, nogoods     devices, and states, that need not be tried again
//	equals                choices that a later equal request or claim need not try
//	serving               long searches: what devices of the same resources can serve together
//	completion, fullest   long searches: devices for all that is open, in another order; one device filled after the other
package solver
