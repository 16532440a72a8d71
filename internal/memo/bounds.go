// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

// Bounds limit what is remembered from one question to the next.
type Bounds struct {
	// Off has nothing remembered.
	Off bool
	// Results are those of expressions, Selections what selectors say of shapes of devices.
	Results, Selections int
	// Problems are the kinds of problems that have answers of nodes, Answers how many each of them has.
	Problems, Answers int
}
