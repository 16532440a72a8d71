// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import "fmt"

// What the names of slices begin with, in upstream's tests: the position in hexadecimal
// digits.
const resourceSliceIndexMinLength = 5

func encodeIndex(index, length int) string { return fmt.Sprintf("%0*x", length, index) }

func refIfNotZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}
