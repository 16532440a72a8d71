package alike

import (
	"context"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// maxPatternDevices is how many devices a pattern spells out at most.
const maxPatternDevices = 512

// poolKey spells out a pool. Values that constraints compare are spelled by their position in
// values: only which are equal matters.
type poolKey struct {
	memo.Key
	values []shape.Value
}

func (k *poolKey) value(v shape.Value) {
	for n := range k.values {
		if k.values[n] == v {
			k.Number(n)
			return
		}
	}
	k.Number(len(k.values))
	k.values = append(k.values, v)
}

func (k *poolKey) attribute(a shape.Attribute, found bool) {
	k.Flags(found, a.HasScalar, a.Unknown)
	k.value(a.Scalar)
	k.Number(len(a.Set))
	for _, v := range a.Set {
		k.value(v)
	}
}

func (k *poolKey) counters(p *pool.Pool) {
	for _, c := range p.Counters {
		k.Number(int(c.Set))
		k.Amount(c.Total)
	}
}

// structure spells what is the same for all problems.
func (k *poolKey) structure(d *pool.Device) {
	local, selector := model.Reach(d)
	k.Flags(d.Multiple, d.ConsumesCounters, len(d.Object.BindingConditions) > 0,
		len(d.Slice.Object.Spec.SkipNodeOperations) > 0, local, selector != nil && len(selector.NodeSelectorTerms) > 1)
	k.Number(len(d.Uses))
	for _, use := range d.Uses {
		k.Number(int(use.Counter))
		k.Amount(use.Amount)
	}
	k.Number(len(d.Groups))
	for _, use := range d.Groups {
		k.Number(int(use.Set))
		k.Number(len(use.Groups))
		for _, group := range use.Groups {
			k.Text(group)
		}
	}
}

// look returns the class of a pool on a node, 0 if it has none, and the values that constraints
// compare.
func (l *lens) look(view *pool.View) appearance {
	if !view.Whole() && (len(view.Pool.Counters) > 0 || view.Here() < len(view.Devices)) {
		return appearance{}
	}
	var k poolKey
	k.counters(view.Pool)
	for _, nd := range view.Devices {
		if !l.device(&k, &view.Pool.Devices[nd.Index]) {
			return appearance{}
		}
	}
	return appearance{l.classes.Of(k.Bytes, maxClasses), k.values}
}

// device is false if a device is not to be read, or if its capacities matter.
func (l *lens) device(k *poolKey, d *pool.Device) bool {
	number := l.projection.Number(d.Shape)
	if number == 0 || l.features.ConsumableCapacity && !eligibility.Plain(d.Shape) {
		return false
	}
	k.Number(int(number))
	k.structure(d)
	k.Number(len(d.Object.Taints))
	for _, taint := range d.Object.Taints {
		k.Text(taint.Key)
		k.Text(taint.Value)
		k.Text(string(taint.Effect))
	}
	for _, name := range l.attributes {
		k.attribute(d.Shape.Attribute(name))
	}
	return true
}

// structure returns the number of what pools are like for all problems that have the lens. It stands
// for what spell appends for a pool of the class.
func (l *lens) structure(class uint32, spell func(*poolKey)) uint32 {
	number, known := l.ofClass.Get(class)
	if !known {
		var k poolKey
		spell(&k)
		number = l.structures.Of(k.Bytes, maxClasses)
		l.ofClass.Set(class, number)
	}
	return number
}

// pattern spells out what a problem can see of a pool on a node, apart from what is in use.
type pattern struct {
	poolKey
	ctx  context.Context
	p    *Problem
	view *pool.View
	// class is that of the problem's lens, 0 if there is none.
	class uint32
}

// spell is false if the devices on the node do not say all, or if looking at some device is an error.
func (t *pattern) spell() bool {
	if !t.view.Whole() && (len(t.view.Pool.Counters) > 0 || !t.sound()) {
		return false
	}
	if t.Flags(t.class != 0); t.class != 0 {
		t.Number(int(t.p.kind.lens.structure(t.class, t.spellStructure)))
	} else {
		t.spellStructure(&t.poolKey)
	}
	for n := range t.view.Here() {
		if !t.device(&t.view.Pool.Devices[t.view.At(n)]) {
			return false
		}
	}
	return true
}

// sound reports whether devices that are not on the node make no difference. Selectors are evaluated
// on them, and may fail.
func (t *pattern) sound() bool {
	for _, d := range t.view.Devices {
		if d.OnNode {
			continue
		}
		for _, f := range t.p.Filters {
			if _, err := t.p.evaluator.Judge(t.ctx, f.Filter, t.view.Pool.Devices[d.Index].Shape, false); err != nil {
				return false
			}
		}
	}
	return true
}

// spellStructure spells what is the same for all problems, those of the lens if there is one: they
// compare the same attributes.
func (t *pattern) spellStructure(k *poolKey) {
	k.counters(t.view.Pool)
	for n := range t.view.Here() {
		d := &t.view.Pool.Devices[t.view.At(n)]
		k.structure(d)
		if t.class == 0 {
			continue
		}
		for _, name := range t.p.kind.lens.attributes {
			k.attribute(d.Shape.Attribute(name))
		}
	}
}

func (t *pattern) device(d *pool.Device) bool {
	for _, f := range t.p.Filters {
		if !t.filter(d, f.Filter) {
			return false
		}
	}
	if t.class != 0 {
		return true
	}
	for _, alt := range t.p.Alternatives {
		if !t.compared(d, alt) {
			return false
		}
	}
	return true
}

// filter spells out how a filter judges a device, and what a share takes.
func (t *pattern) filter(d *pool.Device, f *eligibility.Filter) bool {
	found, err := t.p.evaluator.Judge(t.ctx, f, d.Shape, false)
	if err != nil || found.Use != nil && found.Use.Err != nil {
		return false
	}
	t.Flags(found.Rejects(), f.Tolerates(d.Object.Taints))
	if found.Rejects() || found.Use == nil || !d.Multiple {
		return true
	}
	t.Number(len(found.Use.Parts))
	for _, part := range found.Use.Parts {
		t.Text(string(part.Name))
		t.Amount(part.Taken)
		t.Amount(part.Total)
	}
	return true
}

// compared spells out the values that constraints compare.
func (t *pattern) compared(d *pool.Device, alt *claims.Alternative) bool {
	for _, position := range alt.Constraints {
		name := t.p.Constraints[position].Attribute
		value, found, err := t.p.evaluator.Attribute(t.ctx, alt.Derived, d.Shape, name)
		if err != nil {
			return false
		}
		t.attribute(value, found)
	}
	return true
}
