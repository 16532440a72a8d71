// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import "slices"

// DeepCopy returns a case with copies of all objects.
func (c *Case) DeepCopy() *Case {
	copied := *c
	copied.Nodes = deepCopies(c.Nodes)
	copied.Slices = deepCopies(c.Slices)
	copied.Classes = deepCopies(c.Classes)
	copied.Allocated = deepCopies(c.Allocated)
	copied.Claims = deepCopies(c.Claims)
	return &copied
}

func deepCopies[T interface{ DeepCopy() T }](objects []T) []T {
	if objects == nil {
		return nil
	}
	copies := make([]T, len(objects))
	for i, o := range objects {
		copies[i] = o.DeepCopy()
	}
	return copies
}

// reversed returns an equivalent case with reversed lists: only the order of claims matters.
func reversed(c *Case) *Case {
	turned := c.DeepCopy()
	slices.Reverse(turned.Nodes)
	slices.Reverse(turned.Slices)
	slices.Reverse(turned.Classes)
	slices.Reverse(turned.Allocated)
	return turned
}
