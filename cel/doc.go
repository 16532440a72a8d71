// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cel compiles and evaluates the CEL expressions of Dynamic Resource Allocation:
// selectors, which decide whether a device matches, and derived attributes, which compute a
// value of a device.
//
// # Contract
//
// An expression gives the same answer for a device as in Kubernetes 1.37: true, false, a
// value or an error. It is compiled in the API server's environment for stored expressions,
// checked for the same types and limited to the same cost. Where Kubernetes leaves the answer
// to chance, because Go maps have no order, the answer here is fixed: maps iterate in the order
// of their keys, and of a bare and a qualified attribute of the same name the qualified one
// counts.
//
// Dray alone refuses two kinds of expressions: those longer than the API admits, and those that grow beyond
// measure while they are compiled (see expansion.go).
//
// Everything is safe for concurrent use. Devices are not copied and must not change. Errors are of type
// *[CompileError] or *[EvalError]. They say where the problem is and how to fix it, but do not name the device.
//
// # Picture
//
//	expression ──Cache──► Program ──Reads──► projection of a Device ──Memo──► answer
//	                         │                                          ▲
//	                         └── evaluate, straight off the API object ─┘  (if not memoised)
//
// A [Program] knows which attributes and capacities it reads. The projection of a device is the part that the
// program reads. Devices with equal projections have the same answer, so a [Memo] evaluates one of them. Forty
// thousand GPUs with different serial numbers, but two models, cost two evaluations of a selector for the
// model.
//
// A selector that only compares the driver or attributes with literals is evaluated without CEL and without the
// Memo: by ==, <, in, startsWith, matches and the like, joined by &&, || and !. An example is a selector for a
// serial number.
//
// # Map
//
//	environment, types and their limits    env.go
//	compile, evaluate                      program.go
//	compare with literals                  comparison.go
//	keep compiled programs                 cache.go
//	refuse macros that expand too far      expansion.go
//	worst-case cost                        cost.go
//	what an expression yields              output.go
//	what an expression reads               reads.go, analysis.go
//	a device as a CEL value                device.go, table.go, value.go
//	the projection of a device             projection.go
//	memoise answers                        memo.go
//	errors and what to do about them       errors.go, hint.go
package cel
