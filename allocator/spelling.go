package allocator

import (
	"encoding/binary"
	"slices"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// spelling is bytes that are equal for what is alike. Values that constraints compare are
// spelled by their position in values: only which are equal matters.
type spelling struct {
	text   []byte
	values []pools.Value
}

func (s *spelling) number(n uint32)        { s.text = binary.AppendUvarint(s.text, uint64(n)) }
func (s *spelling) serial(n int64)         { s.text = binary.AppendUvarint(s.text, uint64(n)) }
func (s *spelling) amount(a amount.Amount) { s.text = a.AppendKey(s.text) }

func (s *spelling) flags(flags ...bool) {
	b := byte(0)
	for _, f := range flags {
		b = b<<1 | flagByte(f)
	}
	s.text = append(s.text, b)
}

func (s *spelling) string(t string) {
	s.number(uint32(len(t)))
	s.text = append(s.text, t...)
}

func (s *spelling) value(v pools.Value) {
	n := slices.Index(s.values, v)
	if n < 0 {
		n = len(s.values)
		s.values = append(s.values, v)
	}
	s.number(uint32(n))
}

func (s *spelling) attribute(a pools.Attribute, found bool) {
	s.flags(found, a.HasScalar)
	s.value(a.Scalar)
	s.number(uint32(len(a.Set)))
	for _, v := range a.Set {
		s.value(v)
	}
}

func (s *spelling) counters(p *pools.Pool) {
	for _, c := range p.Counters {
		s.number(uint32(c.Set))
		s.amount(c.Total)
	}
}

// structure spells what is the same for all problems.
func (s *spelling) structure(d *pools.Device) {
	local, selector := reach(d)
	s.flags(d.Multiple, d.ConsumesCounters, len(d.Object.BindingConditions) > 0,
		len(d.Slice.Object.Spec.SkipNodeOperations) > 0, local, selector != nil && len(selector.NodeSelectorTerms) > 1)
	s.number(uint32(len(d.Uses)))
	for _, use := range d.Uses {
		s.number(uint32(use.Counter))
		s.amount(use.Amount)
	}
	s.number(uint32(len(d.Groups)))
	for _, use := range d.Groups {
		s.number(uint32(use.Set))
		s.number(uint32(len(use.Groups)))
		for _, group := range use.Groups {
			s.string(group)
		}
	}
}
