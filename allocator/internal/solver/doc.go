// Package solver chooses devices for requests: a constraint solver over small integers that knows
// nothing of Kubernetes.
//
//	Problem ─► search ─┬─ store     what choices have taken; every write is on one trail
//	                   ├─ checks    may this device be chosen now (refuses)
//	                   ├─ ahead     after the first dead end: viable devices, openings
//	                   │    └─ propagators: counting, assignment, cumulative, distinct, support
//	                   ├─ reason    the decisions that a failure depends on
//	                   └─ symmetry  devices that nothing tells apart
//
// # Contract
//
// Solve returns what trying everything in order would find first: a solution, or a device at which
// looking ends the search. Each of the Rules only leaves out what cannot be found first, so any
// selection of them has the same result; a test compares all of them, each alone and random
// selections with a solver that tries everything.
//
// # Two invariants
//
// A refusal is for good: choices only ever take, so a device that is refused stays refused further
// down. (Amounts below zero break this. Such a problem is searched without looking ahead.)
//
// A conflict is a set of decisions under which there is no solution, whatever else is decided.
// Where looking at a device can end the search, a failure depends on all decisions before.
//
// # A new kind of constraint
//
// What keeps single devices from being chosen goes into the store's checks, with its reason in blame. What can be told ahead of several open requests
// is a propagator: a type with fails, and a line in addPropagators.
//
// # Files
//
//	problem                 the input, the rules
//	search, stops           decisions in order; where looking ends the search
//	store, relation, trail  what is taken, and taking it back
//	ahead                   viable devices, openings, the register of propagators
//	assignment, flow        matching of open slots with devices, counter sets and values
//	cumulative, support     sums of resources; values that all can have
//	sums, fill              totals that devices give together, shares that take what is missing
//	reason, levels          conflicts
//	symmetry                what need not be tried again
package solver
