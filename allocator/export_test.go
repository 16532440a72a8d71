// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import "github.com/dray-project/dray/allocator/internal/solver"

// WithoutRules is the allocator whose searches do without some rules.
func (a *Allocator) WithoutRules(rules solver.Rules) *Allocator {
	a.without = rules
	return a
}
