// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle judges allocation results from first principles. It shares no code
// with the allocator and does everything in the most direct way: every rule looks at
// the complete list of placements and starts from the API objects again.
//
//	Verify      are these results a correct answer to the case?
//	BruteForce  is there any correct answer? (small cases only)
//	Equal       do two answers say the same?
//
// What the rules say is written down in docs/semantics.md. Verify does not judge
// which of several correct answers was chosen.
package oracle
