// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import "github.com/dray-project/dray/alloctest"

// edit makes a case smaller. It works on a copy that belongs to it.
type edit func(*alloctest.Case)

// Reduce returns a case that still fails and of which no part can be left out any
// more. Fails must be true for the case and must not modify cases. The case stays as
// it is.
func Reduce(c *alloctest.Case, fails func(*alloctest.Case) bool) *alloctest.Case {
	for {
		smaller := reduceOnce(c, fails)
		if smaller == nil {
			return c
		}
		c = smaller
	}
}

// reduceOnce goes through all edits, keeping what still fails. It returns nil if
// nothing does.
func reduceOnce(c *alloctest.Case, fails func(*alloctest.Case) bool) *alloctest.Case {
	changed := false
	for i := 0; ; {
		edits := editsFor(c)
		if i >= len(edits) {
			break
		}
		smaller := c.DeepCopy()
		edits[i](smaller)
		if fails(smaller) {
			// What was edit i+1 is edit i now, or close to it.
			c, changed = smaller, true
		} else {
			i++
		}
	}
	if !changed {
		return nil
	}
	return c
}

// edits collects edits. Every edit must change the case it was made for, so that
// reducing comes to an end.
type edits []edit

// when adds an edit if there is something for it to leave out.
func (e *edits) when(applies bool, change edit) {
	if applies {
		*e = append(*e, change)
	}
}

// editsFor lists edits, those that leave out most first.
func editsFor(c *alloctest.Case) edits {
	var e edits
	for i := range c.Claims {
		e.when(len(c.Claims) > 1, func(c *alloctest.Case) { drop(&c.Claims, i) })
	}
	e.dropSlices(c)
	for i := range c.Allocated {
		e.when(true, func(c *alloctest.Case) { drop(&c.Allocated, i) })
	}
	for i, node := range c.Nodes {
		e.when(node.Name != c.Node, func(c *alloctest.Case) { drop(&c.Nodes, i) })
		e.when(len(node.Labels) > 0, func(c *alloctest.Case) { c.Nodes[i].Labels = nil })
		e.when(len(node.Status.DeclaredFeatures) > 0, func(c *alloctest.Case) { c.Nodes[i].Status.DeclaredFeatures = nil })
	}
	for i := range c.Classes {
		e.when(true, func(c *alloctest.Case) { drop(&c.Classes, i) })
	}
	for i, slice := range c.Slices {
		e.slice(i, slice)
	}
	for i, claim := range c.Claims {
		e.claim(i, claim)
	}
	for i, class := range c.Classes {
		e.class(i, class)
	}
	e.features(c)
	return e
}

func drop[T any](parts *[]T, i int) {
	*parts = append((*parts)[:i:i], (*parts)[i+1:]...)
}
