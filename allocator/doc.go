// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocator decides which devices ResourceClaims get on a node: the pure core
// of Dray. It performs Dynamic Resource Allocation with structured parameters
// (KEP-4381, resource.k8s.io/v1) as Kubernetes 1.37 does, needs no cluster, and keeps
// no state of its own but what it remembers of CEL expressions and of nodes.
//
//	claims, classes ─► Compile ─► Problem         once per set of claims
//	Problem + State + node
//	   └► alike: is a node like this one known?   most nodes of a fleet
//	   └► eligibility: which devices may serve    once per kind of node
//	      which request by themselves
//	        └► model ─► solver                    variables, domains, propagators, search
//	             ├► Assignment    ─► Results      what status.allocation holds
//	             ├► Unsatisfiable ─► Explain      counts, conflict core, nearest miss
//	             └► Undecided                     the step budget was spent
//
// # Contract
//
// The same input gives the same outcome, whatever the order of slices, and inputs are
// never modified. With the policy FirstFit the devices are those which upstream's
// k8s.io/dynamic-resource-allocation/structured v0.37 picks, except for what
// docs/decisions says; other policies prefer other devices, and change no verdict.
// Everything exported is safe for concurrent use.
//
// # The search
//
// The solver chooses an option for each prioritized request, and devices for each slot of
// a request, in first-fit order or that of a policy: requests as listed, options by
// preference, devices in ascending order. Its first attempt takes the first device that
// comes along. If that leaves none for the next request, which must match it, it tries
// those that do not. Mostly it succeeds.
//
// If it comes to a dead end, the solver begins again and looks ahead. Each domain then keeps
// the devices that are still viable, and after each decision propagators look at what is
// open:
//
//   - counting: has each request enough devices?
//   - assignment: have all requests together, by a flow from requests to devices?
//   - cumulative: does what is left of counters and capacities suffice?
//   - distinct: are there enough different values for a distinctAttribute?
//   - support: is there a value of a matchAttribute with which all that it covers can be
//     served?
//   - cardinality: are the values of an attribute enough for all constraints that match it,
//     such as those of several pairs of GPU and NIC?
//
// A propagator only fails where no solution is left, so the first solution stays the first.
// Devices that nothing tells apart are tried once, and so are states of the search that
// differ in names only.
//
// Looking at a device can be an error: a selector that fails on it, or a device that "all"
// includes and a constraint does not admit. The first error in first-fit order is the result,
// as is the first solution. Propagators look no further ahead than the next request at which
// there can be one.
//
// Allocation with constraints is NP-hard. A budget of steps bounds the search, which then is
// Undecided.
//
// # Where things are
//
//	options, features, policy   what an Allocator is given
//	problem                     claims and classes, compiled
//	allocate, evaluate          one node, and many
//	outcome                     the three outcomes
//	explain                     the refusal as data and text, summed up over nodes
//	extension                   what claims ask for beyond resource.k8s.io/v1
//	structured                  the drop-in for upstream's package
//	internal/claims             claims joined with classes
//	internal/eligibility        rules about single devices, one ordered list of checks
//	internal/model              a Problem on a node in the solver's terms, and back
//	internal/solver             constraints over small integers, without Kubernetes
//	internal/alike              nodes that a problem cannot tell apart share an answer
//	internal/diagnose           why there is no solution
//	internal/memo, slab         small memories; memory that is used again
package allocator
