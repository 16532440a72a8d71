package allocator

import (
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// state is what the choices made so far have taken. All writes go through the trail.
type state struct {
	trail
	in *instance
	// holders counts, per device, the claims that chose it exclusively or with
	// admin access.
	holders []int32
	// held counts, per claim and device, the same for one claim (0 or 1). A claim
	// without choices has none.
	held [][]int32
	// shares counts, per device, the shares chosen.
	shares []int32
	// consumed is, per device and capacity of its shape by name, what the chosen
	// shares take. Allocated on first use.
	consumed [][]amount.Amount
	pools    []poolState
	// related is the state of the constraints by claim and position.
	related [][]constraintState
	// claimed counts the devices chosen per claim.
	claimed []int32
}

// poolState is what is left of the counters of one pool. Empty without counters.
type poolState struct {
	left   []amount.Amount
	groups []pools.GroupState
}

func newState(in *instance) *state {
	s := &state{
		in:      in,
		holders: make([]int32, len(in.devices)),
		shares:  make([]int32, len(in.devices)),
		held:    make([][]int32, len(in.problem.claims)),
		pools:   make([]poolState, len(in.pools)),
		related: make([][]constraintState, len(in.problem.claims)),
		claimed: make([]int32, len(in.problem.claims)),
	}
	for c := range in.problem.claims {
		s.related[c] = make([]constraintState, len(in.problem.claims[c].constraints))
	}
	for p := range in.pools {
		s.pools[p].left = append(s.pools[p].left, in.pools[p].used.Left...)
		s.pools[p].groups = append(s.pools[p].groups, in.pools[p].used.Groups...)
	}
	return s
}

// commit chooses a device that nothing stands against.
func (s *state) commit(alt *alternative, b *bound, i int32) {
	d := &s.in.devices[i]
	if s.charges(i) {
		left, groups := s.pools[d.pool].left, s.pools[d.pool].groups
		for _, use := range d.Uses {
			s.amounts.set(&left[use.Counter], left[use.Counter].Sub(use.Amount))
		}
		for _, use := range d.Groups {
			s.groups.set(&groups[use.Set], groups[use.Set].Add(use.Groups))
		}
	}
	s.counts.set(&s.claimed[alt.claim], s.claimed[alt.claim]+1)
	if d.multiple {
		s.share(b.domain.uses[i], i)
		return
	}
	if s.held[alt.claim] == nil {
		s.held[alt.claim] = make([]int32, len(s.in.devices))
	}
	s.counts.set(&s.holders[i], s.holders[i]+1)
	s.counts.set(&s.held[alt.claim][i], s.held[alt.claim][i]+1)
}

// charges reports whether choosing the device takes counters (KEP-4815): only the
// first share of a device pays.
func (s *state) charges(i int32) bool {
	d := &s.in.devices[i]
	return d.ConsumesCounters && !(d.multiple && (s.shares[i] > 0 || s.in.isShared(i)))
}

func (s *state) share(use *consumption, i int32) {
	s.counts.set(&s.shares[i], s.shares[i]+1)
	if s.consumed == nil {
		s.consumed = make([][]amount.Amount, len(s.in.devices))
	}
	if s.consumed[i] == nil {
		s.consumed[i] = make([]amount.Amount, len(use.parts))
	}
	for p, part := range use.parts {
		s.amounts.set(&s.consumed[i][p], s.consumed[i][p].Add(part.taken))
	}
}

// relate tells the constraints of an alternative about a chosen device.
func (s *state) relate(alt *alternative, next []constraintState) {
	for k, position := range alt.constraints {
		s.trail.constraints.set(&s.related[alt.claim][position], next[k])
	}
}
