// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

// Bounds limits what is cached between questions.
type Bounds struct {
	// Off disables the caches.
	Off bool
	// Results bounds the results of expressions, Selections the selections of eligibility.
	Results, Selections int
	// Problems bounds the equivalence classes of problems with answers, Answers the answers of each.
	Problems, Answers int
}
