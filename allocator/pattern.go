package allocator

import (
	"context"

	"github.com/dray-project/dray/pools"
)

// pattern spells out what a problem can see of a pool on a node, apart from what is in
// use.
type pattern struct {
	spelling
	ctx  context.Context
	p    *Problem
	view *pools.PoolView
	// class is that of the problem's lens, 0 if there is none.
	class uint32
}

// maxPatternDevices is how many devices a pattern spells out at most.
const maxPatternDevices = 512

// spell is false if the devices on the node do not say all, or if looking at some device is
// an error.
func (t *pattern) spell() bool {
	if !t.view.Whole() && (len(t.view.Pool.Counters) > 0 || !t.sound()) {
		return false
	}
	if t.class != 0 {
		t.flags(true)
		t.number(t.p.kind.lens.structure(t.class, t.spellStructure))
	} else {
		t.flags(false)
		t.spellStructure(&t.spelling)
	}
	for n := range t.view.Here() {
		if !t.device(&t.view.Pool.Devices[t.view.At(n)]) {
			return false
		}
	}
	return true
}

// sound reports whether devices that are not on the node make no difference. Selectors
// are evaluated on them, and may fail.
func (t *pattern) sound() bool {
	for _, d := range t.view.Devices {
		if d.OnNode {
			continue
		}
		for i := range t.p.filters {
			if _, _, err := t.p.allocator.selector.glance(t.ctx, t.p.filters[i].filter, t.view.Pool.Devices[d.Index].Shape); err != nil {
				return false
			}
		}
	}
	return true
}

// spellStructure spells what is the same for all problems, those of the lens if there is
// one: they compare the same attributes.
func (t *pattern) spellStructure(s *spelling) {
	s.counters(t.view.Pool)
	for n := range t.view.Here() {
		d := &t.view.Pool.Devices[t.view.At(n)]
		s.structure(d)
		if t.class == 0 {
			continue
		}
		for _, name := range t.p.kind.lens.attributes {
			s.attribute(d.Shape.Attribute(name))
		}
	}
}

func (t *pattern) device(d *pools.Device) bool {
	for i := range t.p.filters {
		if !t.filter(d, t.p.filters[i].filter) {
			return false
		}
	}
	return t.class != 0 || t.constraints(d)
}

// filter spells out how a filter judges a device, and what a share takes.
func (t *pattern) filter(d *pools.Device, f *filter) bool {
	rejectedBy, use, err := t.p.allocator.selector.glance(t.ctx, f, d.Shape)
	if err != nil || use != nil && use.err != nil {
		return false
	}
	out := rejectedBy >= 0 || use != nil && use.refusal != ""
	t.flags(out, untolerated(f.features, d.Object.Taints, f.tolerations) != nil)
	if out || use == nil || !d.Multiple {
		return true
	}
	t.number(uint32(len(use.parts)))
	for _, part := range use.parts {
		t.string(string(part.name))
		t.amount(part.taken)
		t.amount(part.total)
	}
	return true
}

// constraints spells out the values that constraints compare.
func (t *pattern) constraints(d *pools.Device) (ok bool) {
	ok = true
	t.p.alternatives(func(c *claim, alt *alternative) {
		for _, position := range alt.constraints {
			value, found, err := t.p.allocator.selector.attribute(t.ctx, alt, d.Shape, c.constraints[position].attribute())
			ok = ok && err == nil
			t.attribute(value, found)
		}
	})
	return ok
}
