package allocator

import (
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// state is what the choices made so far have taken. All writes go through the trail.
type state struct {
	trail
	in    *instance
	space *room
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

// begin is the state before the first choice.
func (s *state) begin(in *instance, r *room) {
	s.in, s.space = in, r
	s.trail.forget()
	s.holders, s.shares = r.counts.take(len(in.devices)), r.counts.take(len(in.devices))
	s.held = r.lists.take(len(in.problem.claims))
	s.consumed = nil
	s.pools = s.pools[:0]
	s.related = r.claims.take(len(in.problem.claims))
	s.claimed = r.counts.take(len(in.problem.claims))
	for c := range in.problem.claims {
		s.related[c] = r.related.take(len(in.problem.claims[c].constraints))
	}
	for p := range in.pools {
		used := in.pools[p].used
		left := poolState{r.amounts.take(len(used.Left)), r.groups.take(len(used.Groups))}
		copy(left.left, used.Left)
		copy(left.groups, used.Groups)
		s.pools = append(s.pools, left)
	}
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
		s.held[alt.claim] = s.space.counts.take(len(s.in.devices))
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
		s.consumed = s.space.shares.take(len(s.in.devices))
	}
	if s.consumed[i] == nil {
		s.consumed[i] = s.space.amounts.take(len(use.parts))
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
