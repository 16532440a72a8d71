// Package allocator decides which devices ResourceClaims get on a node: the pure core
// of Dray. It performs Dynamic Resource Allocation with structured parameters
// (KEP-4381, resource.k8s.io/v1) as Kubernetes 1.37 does, needs no cluster, and keeps
// no state of its own but what it remembers of CEL expressions.
//
//	claims, classes ─► Compile ─► Problem          once per set of claims
//	Problem + Snapshot + Usage + node
//	   └► signature ─► answer of a node like it    most nodes of a fleet
//	   └► instance: devices in order, domains      once per kind of node
//	        └► search: decide, check, undo
//	             ├► Assignment    ─► Results       what status.allocation holds
//	             ├► Unsatisfiable ─► Explain       counts, conflict core, nearest miss
//	             └► Undecided                      the step budget was spent
//
// # Contract
//
// The same input gives the same outcome, whatever the order of slices, and inputs are
// never modified. With the policy FirstFit the devices are those which upstream's
// k8s.io/dynamic-resource-allocation/structured v0.37 picks, except for what
// docs/decisions says. Everything exported is safe for concurrent use.
//
// # Vocabulary
//
// An alternative is an exact request or one subrequest of a prioritized list. A slot is
// one device that an alternative needs; a decision chooses a device for a slot. A filter
// is what decides about a device by itself; its domain is the set of devices it leaves,
// the candidates. A constraint relates several devices. The signature of a node is what a
// problem can see of it: the patterns of its pools, and what is in use of them. The trail holds what decisions
// overwrote. A literal instance is one in which looking at a device may be an error.
//
// # How work grows
//
// The first attempt looks at each candidate of each slot at most once. If it comes to a
// dead end, foresight is prepared: for D devices, one look at each for every kind of
// request, and the values that constraints compare. From then on, a decision costs rechecks
// of the devices it could have affected, and a matching of which only what has moved is
// mended. On the cliffs of benchmarks, steps grow with the square of the number of requests
// at most. Allocation with constraints is NP-hard all the same: the step budget bounds it.
//
// # Where things are
//
//	options, features, classes     what an Allocator is given
//	compile, problem, part         claims and classes joined and checked
//	filter, selection, evaluator,
//	judgement                      CEL and capacity on shapes of devices; derived attributes
//	constraint, match, distinct    relations between devices; a new kind is one file
//	capacity, range, quantity,     rules about single devices
//	taint
//	policy                         the order of devices
//	instance, domain               a Problem on one node
//	roster, faces, counted         what all instances of a node have in common
//	desk, room                     memory to work in
//	search, alternatives, slots,   decide, commit, undo
//	state, trail
//	refusal, blame, levels         what stands against a device, and whose doing it is
//	foresight, demand              what is known ahead after a dead end, and kept up to date
//	lookahead, overfull, matching, whether open requests can still be served
//	augment, party, reserve,
//	bin, compatibility, sizes,
//	support, values
//	probe                          which alternatives cannot be picked at all
//	focus                          which requests are what a long search fails of
//	pace                           after how long it asks
//	symmetry, component, twins     what is interchangeable, and tried once
//	nogoods, residue               states that failed
//	danger                         where errors are possible
//	kind, signature, pattern,      what nodes have in common, and answers known from others
//	spelling, answers
//	lens, sight                    the same for what many kinds of problems read, so that a
//	                               new kind costs little
//	numbering, numbertable,        small memories that many goroutines share
//	statetable, notelist
//	inquiry                        answers that depend on a few devices of a fresh state
//	allocate, evaluate, outcome,   entry points and answers
//	verdict, question, stats
//	assignment, nodeselector       results
//	explanation, explain, core,    why there is none, on a node and on many
//	rejection, narrator, nearest,
//	text
package allocator
