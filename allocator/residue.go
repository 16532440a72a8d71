package allocator

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/bits-and-blooms/bitset"
)

// residue spells out what the requests to come can see of the choices made: the number of
// viable devices of each class, component by component, what is left there, and what
// constraints know. Where two states have equal residues, some way of exchanging devices
// turns the solutions below one into those below the other.
type residue struct {
	s     *search
	text  []byte
	parts []string
	// order lists the devices by component and class.
	order    []int32
	relevant *bitset.BitSet
	numbers  []int32
}

// key is the residue before slot n of an alternative, or of a whole request.
func (r *residue) key(s *search, position int, alt *alternative, n int) []byte {
	r.begin(s, position, alt, n)
	for at := 0; at < len(r.order); {
		end := at + 1
		component := s.foresight.componentOf[r.order[at]]
		for end < len(r.order) && s.foresight.componentOf[r.order[end]] == component {
			end++
		}
		r.component(component, r.order[at:end])
		at = end
	}
	slices.Sort(r.parts)
	for _, part := range r.parts {
		r.number(uint32(len(part)))
		r.text = append(r.text, part...)
	}
	return r.text
}

// emptied is a residue in the same memory.
func (r *residue) emptied() residue {
	return residue{text: r.text[:0], parts: r.parts[:0], numbers: r.numbers[:0]}
}

func (r *residue) number(n uint32) { r.text = binary.AppendUvarint(r.text, uint64(n)) }

func (r *residue) begin(s *search, position int, alt *alternative, n int) {
	r.s, r.text, r.parts = s, r.text[:0], r.parts[:0]
	if r.order == nil {
		r.sortDevices()
	}
	r.number(uint32(position))
	if alt != nil {
		r.number(uint32(alt.index + 1))
		r.number(uint32(n))
	}
	r.text = append(r.text, 0)
	r.addClaim(position)
	r.addRelevant(position, alt, n)
}

func (r *residue) sortDevices() {
	f := r.s.foresight
	f.addClasses(r.s)
	r.relevant = r.s.space.set(len(r.s.in.devices))
	r.order = r.s.space.counts.take(len(r.s.in.devices))
	for i := range r.order {
		r.order[i] = int32(i)
	}
	slices.SortStableFunc(r.order, func(a, b int32) int {
		if c := int(f.componentOf[a]) - int(f.componentOf[b]); c != 0 {
			return c
		}
		return int(f.classes[a]) - int(f.classes[b])
	})
}

// addClaim spells out how many devices a claim that is begun has, if it may reach the
// limit, and the states of the constraints that still matter.
func (r *residue) addClaim(position int) {
	s, f := r.s, r.s.foresight
	if position == len(f.requests) {
		return
	}
	claim := f.requests[position].alternatives[0].claim
	if f.atRisk[claim] {
		r.number(uint32(s.claimed[claim]))
	}
	for k := range s.in.problem.claims[claim].constraints {
		at := claimConstraint{claim, k}
		table := f.values[claim][k]
		if table == nil || !f.matters(at, position) {
			continue
		}
		state := s.related[claim][k]
		r.numbers = table.numbersOf(r.numbers[:0], state)
		r.number(uint32(min(state.devices, 1)))
		r.number(uint32(len(r.numbers)))
		for _, id := range r.numbers {
			r.number(uint32(id))
		}
	}
}

// matters reports whether a constraint covers a request from a position on.
func (f *foresight) matters(at claimConstraint, position int) bool {
	return slices.ContainsFunc(f.later[position], func(d int32) bool {
		alt := f.demands[d].alt
		return alt.claim == at.claim && alt.covered(at.position)
	})
}

// addRelevant collects the devices that may still be looked at.
func (r *residue) addRelevant(position int, alt *alternative, n int) {
	s, f := r.s, r.s.foresight
	r.relevant.ClearAll()
	add := func(d int32) {
		r.relevant.InPlaceUnion(f.demands[d].viable)
		if s.in.literal {
			r.addLooks(&f.demands[d])
		}
	}
	if alt != nil {
		position++
		if n < s.in.alternatives[alt.id].needed {
			add(f.demandOf[alt.id])
		}
	}
	for _, d := range f.later[position] {
		add(d)
	}
}

// addLooks adds what a literal instance may look at though it is not viable.
func (r *residue) addLooks(d *demand) {
	r.relevant.InPlaceUnion(d.b.domain.allowed)
	for i := range d.b.domain.bad {
		r.relevant.Set(uint(i))
	}
	for _, i := range d.b.domain.mandatory {
		r.relevant.Set(uint(i))
	}
}

// component spells out one component, or, without counters, all devices that have none.
func (r *residue) component(c int32, devices []int32) {
	start := len(r.text)
	r.text = append(r.text, 1)
	relevant := false
	var touched []string
	for at := 0; at < len(devices); {
		class, count := r.s.foresight.classes[devices[at]], uint32(0)
		for ; at < len(devices) && r.s.foresight.classes[devices[at]] == class; at++ {
			switch i := devices[at]; {
			case !r.relevant.Test(uint(i)):
			case r.s.untouched(i):
				count++
			default:
				touched = append(touched, r.touched(i))
			}
		}
		if count > 0 {
			relevant = true
			r.number(uint32(class) + 1)
			r.number(count)
		}
	}
	slices.Sort(touched)
	r.text = append(r.text, 0)
	r.text = append(r.text, strings.Join(touched, "")...)
	if relevant || len(touched) > 0 {
		if c >= 0 {
			r.left(c)
		}
		r.parts = append(r.parts, string(r.text[start:]))
	}
	r.text = r.text[:start]
}

// touched spells out a device that some choice involves.
func (r *residue) touched(i int32) string {
	s := r.s
	text := binary.AppendUvarint(nil, uint64(s.foresight.classes[i]))
	text = binary.AppendUvarint(text, uint64(s.holders[i]))
	text = binary.AppendUvarint(text, uint64(s.shares[i]))
	for c := range s.held {
		if s.held[c] != nil && s.held[c][i] > 0 {
			text = binary.AppendUvarint(text, uint64(c)+1)
		}
	}
	text = append(text, 0)
	if s.shares[i] > 0 {
		for _, taken := range s.consumed[i] {
			text = taken.AppendKey(text)
		}
	}
	return string(text)
}

// left spells out what is left of the counter sets of a component.
func (r *residue) left(c int32) {
	component := &r.s.foresight.components[c]
	pool := r.s.in.pools[component.pool].pool
	state := &r.s.pools[component.pool]
	for _, k := range component.sets {
		set := &pool.CounterSets[k]
		for n := set.First; n < set.First+set.Count; n++ {
			r.text = state.left[n].AppendKey(r.text)
		}
		r.text = state.groups[k].AppendKey(r.text)
	}
}
