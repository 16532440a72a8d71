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
	// held counts, per claim and device, the same for one claim (0 or 1).
	held [][]int32
	// shares counts, per device, the shares chosen.
	shares []int32
	// consumed is, per device and capacity of its shape by name, what the chosen
	// shares take. Allocated on first use.
	consumed [][]amount.Amount
	pools    []poolState
	// constraints by claim and position.
	constraints [][]constraintState
	// claimed counts the devices chosen per claim.
	claimed []int32
}

// poolState is what is left of the counters of one pool. Nil without counters.
type poolState struct {
	left   []amount.Amount
	groups []pools.GroupState
}

func newState(in *instance) *state {
	s := &state{
		in:          in,
		holders:     make([]int32, len(in.devices)),
		shares:      make([]int32, len(in.devices)),
		held:        make([][]int32, len(in.problem.claims)),
		pools:       make([]poolState, len(in.pools)),
		constraints: make([][]constraintState, len(in.problem.claims)),
		claimed:     make([]int32, len(in.problem.claims)),
	}
	for c := range in.problem.claims {
		s.constraints[c] = make([]constraintState, len(in.problem.claims[c].constraints))
	}
	for p := range in.pools {
		s.pools[p].left = append(s.pools[p].left, in.pools[p].used.Left...)
		s.pools[p].groups = append(s.pools[p].groups, in.pools[p].used.Groups...)
	}
	return s
}

// taken reports whether the choices made so far keep a request from the device:
// ordinary requests want it for themselves, admin access once per claim.
func (s *state) taken(alt *alternative, i int32) bool {
	if alt.admin {
		return s.held[alt.claim] != nil && s.held[alt.claim][i] > 0
	}
	return s.holders[i] > 0
}

// charge takes counters and joins compatibility groups (KEP-4815). Only the first
// share of a device pays.
func (s *state) charge(i int32) bool {
	d := &s.in.devices[i]
	if !d.ConsumesCounters || d.multiple && (d.shared || s.shares[i] > 0) {
		return true
	}
	if s.in.features().CompatibilityGroups && !s.join(d) {
		return false
	}
	// A pool which is overdrawn in any counter gives nothing more.
	if s.in.pools[d.pool].used.Overdrawn {
		return false
	}
	left := s.pools[d.pool].left
	for _, use := range d.Uses {
		rest := left[use.Counter].Sub(use.Amount)
		if rest.Sign() < 0 {
			return false
		}
		s.amounts.set(&left[use.Counter], rest)
	}
	return true
}

func (s *state) join(d *device) bool {
	groups := s.pools[d.pool].groups
	for _, use := range d.Groups {
		if !groups[use.Set].Admits(use.Groups) {
			return false
		}
		s.groups.set(&groups[use.Set], groups[use.Set].Add(use.Groups))
	}
	return true
}

// room reports whether the device has capacity left for one more allocation.
func (s *state) room(use *consumption, i int32) bool {
	if s.shares[i] == 0 {
		return true
	}
	d := &s.in.devices[i]
	used := s.in.pools[d.pool].used
	for p, part := range use.parts {
		taken := used.Consumed(d.index, part.name).Add(s.consumed[i][p]).Add(part.taken)
		if taken.Cmp(part.total) > 0 {
			return false
		}
	}
	return true
}

// hold records the choice of a device.
func (s *state) hold(alt *alternative, use *consumption, i int32) {
	s.counts.set(&s.claimed[alt.claim], s.claimed[alt.claim]+1)
	if s.in.devices[i].multiple {
		s.share(use, i)
		return
	}
	if s.held[alt.claim] == nil {
		s.held[alt.claim] = make([]int32, len(s.in.devices))
	}
	s.counts.set(&s.holders[i], s.holders[i]+1)
	s.counts.set(&s.held[alt.claim][i], s.held[alt.claim][i]+1)
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
