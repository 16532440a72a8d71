package cluster

import (
	"slices"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// holders are the holdings of one device, of any claims, and what they come to. The sums
// are kept rather than computed, because a device may have very many shares. Amounts are
// exact, so that taking away undoes adding. It is immutable.
type holders struct {
	list []*holding
	// wholes is how many hold all of the device. It should be one at most.
	wholes int
	// consumed has no zeros, and no order.
	consumed []pool.Consumption
}

func (h holders) use() pool.Use {
	return pool.Use{Exclusive: h.wholes > 0, Shared: h.wholes < len(h.list), Consumed: h.consumed}
}

func (h holders) with(added *holding) holders {
	// Clipped, so that appending does not write to what others see.
	next := holders{list: append(slices.Clip(h.list), added), wholes: h.wholes, consumed: h.consumed}
	if !added.share {
		next.wholes++
		return next
	}
	next.consumed = added.change(h.consumed, amount.Amount.Add)
	return next
}

// without leaves out the holdings of a claim.
func (h holders) without(claim ClaimRef) holders {
	next := holders{list: make([]*holding, 0, len(h.list)), wholes: h.wholes, consumed: h.consumed}
	for _, held := range h.list {
		switch {
		case !held.of(claim):
			next.list = append(next.list, held)
		case held.share:
			next.consumed = held.change(next.consumed, amount.Amount.Sub)
		default:
			next.wholes--
		}
	}
	return next
}

func (h *holding) of(claim ClaimRef) bool {
	claim.Request = h.ref.Request
	return h.ref == claim
}

// change adds what a share consumes to sums, or subtracts it. The result is a new list.
func (h *holding) change(sums []pool.Consumption, operation func(a, b amount.Amount) amount.Amount) []pool.Consumption {
	changed := slices.Clone(sums)
	for capacity, consumed := range h.consumed {
		at := slices.IndexFunc(changed, func(c pool.Consumption) bool { return c.Capacity == capacity })
		if at < 0 {
			at = len(changed)
			changed = append(changed, pool.Consumption{Capacity: capacity})
		}
		changed[at].Amount = operation(changed[at].Amount, quantity.Amount(consumed))
	}
	return slices.DeleteFunc(changed, func(c pool.Consumption) bool { return c.Amount.IsZero() })
}
