// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"math"
	"strings"

	"github.com/puzpuzpuz/xsync/v4"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// Options are limits of searches. Upstream's allocator has none: it searches until its context ends.
type Options struct {
	// Budget is the number of search steps per node after which a search ends with ErrUndecided. Zero or less is
	// allocator.DefaultBudget.
	Budget int64
	// MaxBudget is the budget that it may grow to. Each allocator that is made after claims were undecided has four
	// times as many steps for these claims as the one before. Zero or less is 64 times Budget, and what is less than
	// Budget is Budget: then nothing grows.
	MaxBudget int64
}

const (
	// growth is by how much the budget of an attempt is larger than that of the attempt before.
	growth = 4
	// mostGrowth is by how much it is larger than the first one, if nothing else is said.
	mostGrowth = growth * growth * growth
)

func (o Options) withDefaults() Options {
	if o.Budget <= 0 {
		o.Budget = allocator.DefaultBudget
	}
	if o.MaxBudget <= 0 {
		o.MaxBudget = times(o.Budget, mostGrowth)
	}
	o.MaxBudget = max(o.MaxBudget, o.Budget)
	return o
}

// times is a product, or the largest number.
func times(budget, by int64) int64 {
	if budget > math.MaxInt64/by {
		return math.MaxInt64
	}
	return budget * by
}

// attempts remembers which budget the next attempt for claims has, after they were undecided. Claims are known by their
// UIDs, those without one by their names.
type attempts struct{ budgets *xsync.Map[string, int64] }

// maxAttempts bounds the claims that are remembered. When there are more, all are forgotten, and begin again.
const maxAttempts = 1024

func newAttempts() *attempts { return &attempts{xsync.NewMap[string, int64]()} }

func (a *attempts) budget(claims []*resourceapi.ResourceClaim, o Options) int64 {
	if a.budgets.Size() == 0 {
		return o.Budget
	}
	grown, _ := a.budgets.Load(keyOf(claims))
	return min(max(grown, o.Budget), o.MaxBudget)
}

// undecided notes that the budget was too small to decide about the claims: the next attempt has a larger one.
func (a *attempts) undecided(claims []*resourceapi.ResourceClaim, budget int64, o Options) {
	if a.budgets.Size() >= maxAttempts {
		a.budgets.Clear()
	}
	a.budgets.Store(keyOf(claims), min(times(budget, growth), o.MaxBudget))
}

func keyOf(claims []*resourceapi.ResourceClaim) string {
	var key strings.Builder
	for _, claim := range claims {
		if claim.UID != "" {
			key.WriteString(string(claim.UID))
		} else {
			key.WriteString(claim.Namespace + "/" + claim.Name)
		}
		key.WriteByte(0)
	}
	return key.String()
}
