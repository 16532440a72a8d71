// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance runs what others wrote on Dray: the tests of the software whose
// place Dray takes, at a pinned version, with Dray in that place.
//
// # Contract
//
// A part names a counterpart. Its module comes through the Go module proxy; nothing of it is
// committed. A part is laid out in a temporary folder as a module below the counterpart's
// path, because that is what admits Go code to the counterpart's internal packages. Each test
// of the counterpart either passes, is skipped by the counterpart itself, or differs. A
// difference is known if known.yaml lists it with a decision, or if the part itself established
// that only the text of an error differs. Everything else is new, and a new difference fails.
// So does an entry of known.yaml that no longer differs, or that no test has.
//
// Of packages that Dray has under another path, the exported names are compared as well, by their
// types: a program that changes an import compiles only if each of them is there.
//
// Where nothing of the counterpart's tests can be asked of Dray, tests of this repository ask both.
//
// Programs of others and the scheduler run twice, as they are and with Dray. What fails in
// both runs is counted apart, and is no difference.
//
// # Picture
//
//	counterpart (module proxy) ─┐
//	adapter (testdata/)  ───────┼─► workspace ─► go test -json ─► Outcomes ─┬─► table
//	Dray (this checkout) ───────┘                    known.yaml ────────────┘   docs/conformance.md
package conformance
