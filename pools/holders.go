package pools

import (
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// holders are the holdings of one device, of any claims, and what they come to. The sums
// are kept rather than computed, because a device may have very many shares. Amounts are
// exact, so that taking away undoes adding. It is immutable.
type holders struct {
	list []*holding
	// wholes is how many hold all of the device. It should be one at most.
	wholes int
	// consumed has no zeros, and no order.
	consumed []consumption
}

func (h holders) use() use {
	return use{exclusive: h.wholes > 0, shared: h.wholes < len(h.list), consumed: h.consumed}
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
func (h *holding) change(sums []consumption, operation func(a, b amount.Amount) amount.Amount) []consumption {
	changed := slices.Clone(sums)
	for capacity, quantity := range h.consumed {
		at := slices.IndexFunc(changed, func(c consumption) bool { return c.capacity == capacity })
		if at < 0 {
			at = len(changed)
			changed = append(changed, consumption{capacity: capacity})
		}
		changed[at].amount = operation(changed[at].amount, amount.FromQuantity(quantity))
	}
	return slices.DeleteFunc(changed, func(c consumption) bool { return c.amount.IsZero() })
}
