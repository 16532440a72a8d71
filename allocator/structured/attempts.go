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
	// MaxBudget is the largest budget. After claims were undecided, the next allocator for them has four times
	// as many steps, up to MaxBudget. Zero or less is 64 times Budget. A value below Budget counts as Budget:
	// the budget does not grow then.
	MaxBudget int64
}

const (
	// growth is the factor by which each attempt's budget exceeds that of the attempt before.
	growth = 4
	// mostGrowth is the default ratio of MaxBudget to Budget.
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

// times multiplies, and saturates.
func times(budget, by int64) int64 {
	if budget > math.MaxInt64/by {
		return math.MaxInt64
	}
	return budget * by
}

// attempts remembers the budget of the next attempt for claims that were undecided. The key is the UIDs of the
// claims, or the names of those without a UID.
type attempts struct{ budgets *xsync.Map[string, int64] }

// maxAttempts bounds the entries. When they are full, all are dropped, and budgets start again.
const maxAttempts = 1024

func newAttempts() *attempts { return &attempts{xsync.NewMap[string, int64]()} }

func (a *attempts) budget(claims []*resourceapi.ResourceClaim, o Options) int64 {
	if a.budgets.Size() == 0 {
		return o.Budget
	}
	grown, _ := a.budgets.Load(keyOf(claims))
	return min(max(grown, o.Budget), o.MaxBudget)
}

// undecided records that the budget was too small for the claims: the next attempt has a larger one.
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
