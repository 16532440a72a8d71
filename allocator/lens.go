package allocator

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// lens is what some kinds of problems can tell about devices: the parts that their
// selectors read and the attributes that their constraints compare. Pools that look the
// same through a lens have the same pattern for each of these kinds, so a claim for
// another model costs one look at each class of pools, not at each pool. It is safe for
// concurrent use.
type lens struct {
	sight      *sight
	attributes []resourceapi.FullyQualifiedName

	// classes numbers what pools look like, states what places with their use do.
	classes, states numbering
	// structures numbers what pools of a class are like.
	structures numbering
	// ofClass has these numbers.
	ofClass numberTable
}

const (
	// maxLenses is how many lenses an Allocator keeps.
	maxLenses = 64
	// maxClasses is how many classes of pools a lens tells apart. Others have none.
	maxClasses = 1 << 14
	// maxStates is how many states of places a lens tells apart before it starts anew.
	maxStates = 1 << 15
)

// lensOf returns the lens of a compiled problem, nil if there is none: selectors may read
// anything or do not compile, capacity is asked for, or constraints compare attributes
// that are derived.
func (a *Allocator) lensOf(p *Problem) (*lens, error) {
	r := make(reads)
	for i := range p.filters {
		if p.filters[i].capacity != nil {
			return nil, nil
		}
		if p.filters[i].reads == nil {
			return nil, nil
		}
		maps.Copy(r, p.filters[i].reads)
	}
	var attributes []resourceapi.FullyQualifiedName
	derived := false
	p.alternatives(func(c *claim, alt *alternative) {
		derived = derived || len(alt.derived) > 0
		for _, position := range alt.constraints {
			attributes = append(attributes, c.constraints[position].attribute())
		}
	})
	if derived {
		return nil, nil
	}
	seen, err := a.sight(r)
	if err != nil {
		return nil, err
	}
	return a.lens(seen, attributes), nil
}

// lensKey is what makes a lens.
type lensKey struct {
	sight      *sight
	attributes string
}

// lens returns the one that was made for the same sight and attributes.
func (a *Allocator) lens(s *sight, attributes []resourceapi.FullyQualifiedName) *lens {
	slices.Sort(attributes)
	attributes = slices.Compact(attributes)
	key := lensKey{s, fmt.Sprintf("%q", attributes)}
	if known, ok := a.lenses.Get(key); ok {
		return known.(*lens)
	}
	l := &lens{sight: s, attributes: attributes}
	a.lenses.Add(key, l)
	return l
}

// look returns the class of a pool on a node, 0 if it has none, and the values that
// constraints compare.
func (l *lens) look(view *pools.PoolView, f Features) (uint32, []pools.Value) {
	var s spelling
	if !view.Whole() && (len(view.Pool.Counters) > 0 || view.Here() < len(view.Devices)) {
		return 0, nil
	}
	s.counters(view.Pool)
	for _, nd := range view.Devices {
		if d := &view.Pool.Devices[nd.Index]; !l.spell(&s, d, f) {
			return 0, nil
		}
	}
	return l.classes.of(s.text, maxClasses), s.values
}

// structure returns the number of what pools are like for all problems that have the lens.
// It stands for what spell appends for a pool of the class.
func (l *lens) structure(class uint32, spell func(*spelling)) uint32 {
	number, known := l.ofClass.get(class)
	if !known {
		var s spelling
		spell(&s)
		number = l.structures.of(s.text, maxClasses)
		l.ofClass.set(class, number)
	}
	return number
}

// spell is false if a device is not to be read, or if its capacities matter.
func (l *lens) spell(s *spelling, d *pools.Device, f Features) bool {
	number := l.sight.number(d.Shape)
	if number == 0 || f.ConsumableCapacity && !notesOf(d.Shape).plain {
		return false
	}
	s.number(number)
	s.structure(d)
	s.number(uint32(len(d.Object.Taints)))
	for _, taint := range d.Object.Taints {
		s.string(taint.Key)
		s.string(taint.Value)
		s.string(string(taint.Effect))
	}
	for _, name := range l.attributes {
		s.attribute(d.Shape.Attribute(name))
	}
	return true
}
