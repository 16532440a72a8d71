package allocator

// Twins are requests that ask for the same: exchanging what they get turns a solution
// into a solution. In the first one, an earlier twin has the better pick or, of the same
// alternative, the earlier first device. The search needs to look at no others.
//
// Two things depend on the order in which devices are chosen, so that requests are no twins:
// admin access to a device is possible after others chose it, but not before; and without
// list types, a distinctAttribute takes a value of a type unknown from the first device.

// floor is what a request's last decided twin has.
type floor struct {
	// pick is the index of its alternative, device its first one, -1 if there is none.
	pick, device int32
	// pickLevel and level are where both were decided.
	pickLevel, level int32
}

// addTwins sorts requests into groups.
func (f *foresight) addTwins(s *search) {
	f.twins = s.space.counts.take(len(f.requests))
	for p := range f.requests {
		f.twins[p] = -1
		if !s.left(p) || !f.hasCounts(s, p) {
			continue
		}
		for q := p - 1; q >= 0; q-- {
			if f.twins[q] >= 0 && f.areTwins(s, p, q) {
				f.twins[p] = f.twins[q]
				break
			}
			if f.requests[q].alternatives[0].admin && !f.requests[p].alternatives[0].admin {
				break
			}
		}
		if f.twins[p] < 0 {
			f.twins[p] = int32(len(f.floors))
			f.floors = append(f.floors, floor{device: -1})
		}
	}
}

func (f *foresight) hasCounts(s *search, position int) bool {
	for _, alt := range f.requests[position].alternatives {
		if alt.all || s.in.alternatives[alt.id].needed == 0 {
			return false
		}
	}
	return true
}

// areTwins compares requests. Prioritized ones of two claims are not twins: they may
// decide how many devices each claim has.
func (f *foresight) areTwins(s *search, p, q int) bool {
	a, b := f.requests[p].alternatives, f.requests[q].alternatives
	if len(a) != len(b) || f.requests[p].prioritized != f.requests[q].prioritized ||
		f.requests[p].prioritized && a[0].claim != b[0].claim {
		return false
	}
	for k := range a {
		if s.ordered(a[k]) {
			return false
		}
		if f.demandOf[a[k].id] != f.demandOf[b[k].id] || s.in.alternatives[a[k].id].needed != s.in.alternatives[b[k].id].needed {
			return false
		}
	}
	return true
}

// ordered reports whether a constraint on an alternative depends on which device is first.
func (s *search) ordered(alt *alternative) bool {
	for _, position := range alt.constraints {
		if distinct, ok := s.in.problem.claims[alt.claim].constraints[position].(distinctAttribute); ok && !distinct.lists {
			return true
		}
	}
	return false
}

// floorOf is the floor under a request, nil if it has none.
func (s *search) floorOf(position int) *floor {
	f := s.foresight
	if f == nil || f.twins[position] < 0 {
		return nil
	}
	if under := &f.floors[f.twins[position]]; under.device >= 0 {
		return under
	}
	return nil
}

// floorUnder is the position of the first device that an alternative may begin with.
func (s *search) floorUnder(alt *alternative) uint {
	if s.foresight == nil {
		return 0
	}
	if under := s.floorOf(s.foresight.position(alt)); under != nil && int(under.pick) == alt.index {
		return uint(under.device)
	}
	return 0
}

// blameFloor blames what the floor under a request rests on.
func (s *search) blameFloor(to *levels, position int) {
	if under := s.floorOf(position); under != nil {
		to.add(int(under.level))
		if under.pickLevel >= 0 {
			to.add(int(under.pickLevel))
		}
	}
}

// raiseFloor notes the first device of a request for the twins to come.
func (s *search) raiseFloor(alt *alternative, device int32, level int) {
	f := s.foresight
	group := f.twins[f.position(alt)]
	if group < 0 {
		return
	}
	raised := floor{pick: int32(alt.index), device: device, pickLevel: -1, level: int32(level)}
	if s.in.problem.claims[alt.claim].requests[alt.request].prioritized {
		raised.pickLevel = int32(s.pickedAt[alt.claim][alt.request])
	}
	s.floors.set(&f.floors[group], raised)
}
