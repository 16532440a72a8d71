// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"slices"

	"github.com/dray-project/dray/alloctest"
)

// Cliff is a family of small inputs, all within the API's limits, on which trying
// everything takes time that is exponential in a size, K.
type Cliff struct {
	// Name is a path element of benchmark names: lower case, words joined by dashes.
	Name string
	// K says in words what is counted.
	K string
	// Sizes are values of K, ascending, most of them doubling; the last is as far as the
	// API allows.
	Sizes []int
	// Packing is set for those that are bin packing at heart. They may take longer.
	Packing bool
	// Steepest is the power of K that steps may grow with, DefaultSteepest if it is zero.
	Steepest float64
	// Build generates the input of a size: the claims of one pod, asked about Case.Node.
	Build func(k int) *alloctest.Case
	// Fits tells whether there is an allocation.
	Fits bool
}

// DefaultSteepest is the power of K that the steps of most cliffs may grow with.
const DefaultSteepest = 2.2

// Cliffs lists all of them.
func Cliffs() []Cliff {
	return slices.Concat(countingCliffs, valueCliffs, packingCliffs, partitionCliffs, mixedCliffs)
}
