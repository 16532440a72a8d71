package solver

import (
	"encoding/binary"
	"slices"
)

// Devices of one class are interchangeable as long as no choice involves them: nothing in the
// problem tells them apart. Exchanging two of them turns a solution into a solution. So if one
// failed in a place, the others do.

// classOf returns the class of a device.
func (s *search) classOf(i int32) int32 {
	a := s.ahead
	if a.classes == nil {
		numbers := make(map[string]int32)
		a.classes = s.memory.counts.Take(len(s.p.Devices))
		var key []byte
		for i := range a.classes {
			key = s.appendClass(key[:0], int32(i))
			n, known := numbers[string(key)]
			if !known {
				n = int32(len(numbers))
				numbers[string(key)] = n
			}
			a.classes[i] = n
		}
	}
	return a.classes[i]
}

// appendClass appends all that a problem says of a device.
func (s *search) appendClass(key []byte, i int32) []byte {
	d := &s.p.Devices[i]
	key = appendFlags(key, d.Shareable, s.p.Paid != nil && s.p.Paid.Test(uint(i)))
	key = binary.AppendVarint(key, int64(d.Pool))
	key = appendDraws(key, d.Draws)
	key = binary.AppendUvarint(key, uint64(len(d.Groups)))
	for _, g := range d.Groups {
		key = binary.AppendUvarint(key, uint64(g.Relation))
		key = appendValues(key, g.Values)
	}
	for k := range s.p.Domains {
		domain := &s.p.Domains[k]
		key = appendFlags(key, domain.Allowed.Test(uint(i)), domain.Stops != nil && domain.Stops.Test(uint(i)))
		for _, c := range domain.Covers {
			key = appendFlags(key, c.Values[i] != nil, c.Stops != nil && c.Stops.Test(uint(i)))
			key = appendValues(key, c.Values[i])
		}
		for _, gives := range domain.Gives {
			key = gives[i].AppendKey(key)
		}
		if int(i) < len(domain.Shares) {
			key = s.appendShare(key, domain.Shares[i])
		}
	}
	return key
}

// appendShare appends amounts and what there was left of them: each device has resources of
// its own for its shares.
func (s *search) appendShare(key []byte, share []Draw) []byte {
	key = binary.AppendUvarint(key, uint64(len(share)))
	for _, draw := range share {
		key = draw.Amount.AppendKey(key)
		key = s.p.Left[draw.Resource].AppendKey(key)
	}
	return key
}

func appendFlags(key []byte, flags ...bool) []byte {
	b := byte(0)
	for _, flag := range flags {
		b <<= 1
		if flag {
			b |= 1
		}
	}
	return append(key, b)
}

func appendDraws(key []byte, draws []Draw) []byte {
	key = binary.AppendUvarint(key, uint64(len(draws)))
	for _, draw := range draws {
		key = binary.AppendUvarint(key, uint64(draw.Resource))
		key = draw.Amount.AppendKey(key)
	}
	return key
}

func appendValues(key []byte, values []int32) []byte {
	key = binary.AppendUvarint(key, uint64(len(values)))
	for _, v := range values {
		key = binary.AppendUvarint(key, uint64(v))
	}
	return key
}

// alikeSet remembers for one slot which classes of devices failed.
type alikeSet struct{ classes []int32 }

func (a *alikeSet) add(s *search, p, i int32) {
	if s.interchangeable(p, i) {
		a.classes = append(a.classes, s.classOf(i))
	}
}

func (a *alikeSet) has(s *search, p, i int32) bool {
	return len(a.classes) > 0 && s.interchangeable(p, i) && slices.Contains(a.classes, s.classOf(i))
}

// interchangeable reports whether the class of a device says all of it, for request p and those
// after it. Where the search can end, the order of devices matters.
func (s *search) interchangeable(p, i int32) bool {
	return s.ahead != nil && s.rules&RuleSymmetry != 0 && p >= s.lastStop && s.untouched(i)
}

// untouched reports whether no choice so far involves the device.
func (s *search) untouched(i int32) bool { return s.holders[i] == 0 && s.shares[i] == 0 }
