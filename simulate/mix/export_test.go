// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"

	"github.com/dray-project/dray/simulate"
)

// Steps is how many steps it takes to find the cheapest choice of nodes.
func Steps(ctx context.Context, state *simulate.State, q Question) (int64, error) {
	p, err := read(ctx, state, &q)
	if err != nil {
		return 0, err
	}
	before := p.steps
	_, err = p.cheapest(ctx)
	return before - p.steps, err
}
