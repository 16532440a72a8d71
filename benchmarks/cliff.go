// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"slices"

	"github.com/dray-project/dray/alloctest"
)

// Cliff is a family of small inputs within the API's limits. Without pruning, the search takes time
// that is exponential in a size, K.
type Cliff struct {
	// Name is a path element of benchmark names: lower case, words joined by dashes.
	Name string
	// K describes what K counts.
	K string
	// Sizes are values of K, ascending and mostly doubling. The last is the API's limit.
	Sizes []int
	// Packing says that the problem contains bin packing, so that more time is permitted.
	Packing bool
	// Steepest is the power of K with which the number of steps may grow. Zero stands for
	// DefaultSteepest.
	Steepest float64
	// Build returns the input of a size: the claims of one pod. The question is about Case.Node.
	Build func(k int) *alloctest.Case
	// Fits says that an allocation exists.
	Fits bool
}

// DefaultSteepest is the power of K with which the steps of most cliffs may grow.
const DefaultSteepest = 2.2

// Cliffs returns all cliffs.
func Cliffs() []Cliff {
	return slices.Concat(countingCliffs, valueCliffs, packingCliffs, partitionCliffs, mixedCliffs)
}
