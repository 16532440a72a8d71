// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import "github.com/dray-project/dray/allocator/internal/solver"

// WithoutRules is the allocator whose searches do without some rules.
func (a *Allocator) WithoutRules(rules solver.Rules) *Allocator {
	a.without = rules
	return a
}

// JudgingUpTo is the allocator that judges the devices of a node one by one if there are more, for claims that ask for
// one device.
func (a *Allocator) JudgingUpTo(few int) *Allocator {
	a.few = few
	return a
}
