// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocator decides which devices ResourceClaims get on a node: the pure core of Dray. It performs
// Dynamic Resource Allocation with structured parameters (KEP-4381, resource.k8s.io/v1) as Kubernetes 1.37
// does, and needs no cluster. Its only state are caches of CEL results and of answers for nodes.
//
//	claims, classes ─► Compile ─► Problem         once per set of claims
//	Problem + State + node
//	   └► alike: is an equivalent node known?     most nodes of a fleet
//	   └► eligibility: which devices may serve    once per equivalence class of nodes
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
// The solver chooses an alternative for each prioritized request, and devices for each slot of a request. Its
// order is first fit or that of a policy: requests as listed, alternatives by preference, devices in ascending
// order. The first attempt takes the first candidate of each slot. If the next request must match a device and
// has no candidate left, the attempt skips to a device of another value. In most cases this finds the first
// solution.
//
// After a dead end the solver restarts with look-ahead. Each domain then holds the devices that are still
// viable, and after each decision propagators check the open requests:
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
// A propagator only fails where no solution is left, so the first solution stays the first. Of interchangeable
// devices one is tried, and so is one of the search states that differ in names only.
//
// A device can end the search with an error: a selector fails on it, or allocationMode All includes it and a
// constraint does not admit it. The result is whatever comes first in first-fit order, error or solution.
// Propagators therefore look no further ahead than the next request that can end in an error.
//
// Allocation with constraints is NP-hard. A budget of steps bounds the search. When it is spent, the outcome is
// Undecided.
//
// # Where things are
//
//	options, features, policy   configuration of an Allocator
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
//	internal/alike              equivalent nodes share an answer
//	internal/diagnose           why there is no solution
//	internal/slab               memory that searches use again
package allocator
