package allocator

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// pattern spells out what a problem can see of a pool on a node, apart from what is in
// use, and apart from which values the constraints compare: only which are equal.
type pattern struct {
	ctx    context.Context
	p      *Problem
	view   *pools.PoolView
	text   []byte
	values []pools.Value
}

// maxPatternDevices is how many devices a pattern spells out at most.
const maxPatternDevices = 512

// spell is false if the devices on the node do not say all, or if looking at some device is
// an error.
func (t *pattern) spell() bool {
	if !t.view.Whole() && (len(t.view.Pool.Counters) > 0 || !t.sound()) {
		return false
	}
	for _, c := range t.view.Pool.Counters {
		t.number(uint32(c.Set))
		t.amount(c.Total)
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
			if _, err := t.p.allocator.selector.judge(t.ctx, t.p.filters[i].filter, t.view.Pool.Devices[d.Index].Shape); err != nil {
				return false
			}
		}
	}
	return true
}

func (t *pattern) number(n uint32)        { t.text = binary.AppendUvarint(t.text, uint64(n)) }
func (t *pattern) amount(a amount.Amount) { t.text = a.AppendKey(t.text) }

func (t *pattern) flags(flags ...bool) {
	b := byte(0)
	for _, f := range flags {
		b <<= 1
		if f {
			b |= 1
		}
	}
	t.text = append(t.text, b)
}

func (t *pattern) device(d *pools.Device) bool {
	local, selector := reach(d)
	t.flags(d.Multiple, d.ConsumesCounters, len(d.Object.BindingConditions) > 0,
		len(d.Slice.Object.Spec.SkipNodeOperations) > 0, local, selector != nil && len(selector.NodeSelectorTerms) > 1)
	t.number(uint32(len(d.Uses)))
	for _, use := range d.Uses {
		t.number(uint32(use.Counter))
		t.amount(use.Amount)
	}
	t.number(uint32(len(d.Groups)))
	for _, use := range d.Groups {
		t.number(uint32(use.Set))
		t.number(uint32(len(use.Groups)))
		for _, group := range use.Groups {
			t.string(group)
		}
	}
	for i := range t.p.filters {
		if !t.filter(d, t.p.filters[i].filter) {
			return false
		}
	}
	return t.constraints(d)
}

func (t *pattern) string(s string) {
	t.number(uint32(len(s)) + 1)
	t.text = append(t.text, s...)
}

// filter spells out how a filter judges a device, and what a share takes.
func (t *pattern) filter(d *pools.Device, f *filter) bool {
	v, err := t.p.allocator.selector.judge(t.ctx, f, d.Shape)
	if err != nil || v.use != nil && v.use.err != nil {
		return false
	}
	out := v.rejectedBy >= 0 || v.use != nil && v.use.refusal != ""
	t.flags(out, untolerated(f.features, d.Object.Taints, f.tolerations) != nil)
	if out || v.use == nil || !d.Multiple {
		return true
	}
	t.number(uint32(len(v.use.parts)))
	for _, part := range v.use.parts {
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
			t.flags(found, value.HasScalar)
			t.value(value.Scalar)
			t.number(uint32(len(value.Set)))
			for _, v := range value.Set {
				t.value(v)
			}
		}
	})
	return ok
}

func (t *pattern) value(v pools.Value) {
	n := slices.Index(t.values, v)
	if n < 0 {
		n = len(t.values)
		t.values = append(t.values, v)
	}
	t.number(uint32(n))
}
