package allocator

import (
	"context"
	"encoding/binary"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// pattern spells out what a problem can see of a pool, apart from what is in use.
type pattern struct {
	ctx  context.Context
	p    *Problem
	view *pools.PoolView
	text []byte
}

// key is false if the pool does not behave alike on all nodes, or if looking at some
// device is an error.
func (t *pattern) key() ([]byte, bool) {
	if t.view.Incomplete != "" || t.view.Invalid != "" || len(t.view.Devices) != len(t.view.Pool.Devices) {
		return nil, false
	}
	for _, c := range t.view.Pool.Counters {
		t.number(uint32(c.Set))
		t.amount(c.Total)
	}
	for i := range t.view.Pool.Devices {
		if !t.device(&t.view.Pool.Devices[i]) {
			return nil, false
		}
	}
	return t.text, true
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
	spec := &d.Slice.Object.Spec
	if len(spec.SkipNodeOperations) > 0 || spec.NodeSelector != nil || d.Object.NodeSelector != nil {
		return false
	}
	t.flags(true, d.Multiple, d.ConsumesCounters, len(d.Object.BindingConditions) > 0)
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
			t.text = value.Scalar.AppendKey(t.text)
			t.number(uint32(len(value.Set)))
			for _, v := range value.Set {
				t.text = v.AppendKey(t.text)
			}
		}
	})
	return ok
}
