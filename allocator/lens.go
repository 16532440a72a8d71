package allocator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// lens is what some kinds of problems can tell about devices: the parts that their
// selectors read and the attributes that their constraints compare. Pools that look the
// same through a lens have the same pattern for each of these kinds, so a claim for
// another model costs one look at each class of pools, not at each pool. It is safe for
// concurrent use.
type lens struct {
	programs   []*cel.Program // one for each different set of reads
	attributes []resourceapi.FullyQualifiedName

	mu      sync.Mutex
	classes map[string]uint32
	// states numbers what places with their use look like. No number is given twice,
	// so that after starting anew an old one is merely not found.
	states map[string]uint32
	last   uint32
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
	reads := make(map[string]*cel.Program)
	for i := range p.filters {
		if p.filters[i].capacity != nil {
			return nil, nil
		}
		for _, s := range p.filters[i].selectors {
			if s.err != nil || !s.program.Reads().Exact {
				return nil, nil
			}
			key, err := json.Marshal(s.program.Reads())
			if err != nil {
				return nil, fmt.Errorf("what a selector reads cannot be encoded: %w", err)
			}
			reads[string(key)] = s.program
		}
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
	return a.interned(reads, attributes)
}

// interned returns the lens that was made for the same reads and attributes.
func (a *Allocator) interned(reads map[string]*cel.Program, attributes []resourceapi.FullyQualifiedName) (*lens, error) {
	keys := slices.Sorted(maps.Keys(reads))
	slices.Sort(attributes)
	attributes = slices.Compact(attributes)
	key, err := json.Marshal([]any{keys, attributes})
	if err != nil {
		return nil, fmt.Errorf("what a problem reads cannot be encoded: %w", err)
	}
	if known, ok := a.lenses.Get(string(key)); ok {
		return known.(*lens), nil
	}
	l := &lens{attributes: attributes, classes: make(map[string]uint32), states: make(map[string]uint32)}
	for _, key := range keys {
		l.programs = append(l.programs, reads[key])
	}
	a.lenses.Add(string(key), l)
	return l, nil
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
	return l.class(s.text), s.values
}

// spell is false if a device is not to be read, or if its capacities matter.
func (l *lens) spell(s *spelling, d *pools.Device, f Features) (ok bool) {
	if f.ConsumableCapacity && (d.Multiple || !unconditional(d.Object.Capacity)) {
		return false
	}
	s.structure(d)
	s.number(uint32(len(d.Object.Taints)))
	for _, taint := range d.Object.Taints {
		s.string(taint.Key)
		s.string(taint.Value)
		s.string(string(taint.Effect))
	}
	for _, program := range l.programs {
		if s.text, ok = program.AppendProjection(s.text, notesOf(d.Shape).device); !ok {
			return false
		}
	}
	for _, name := range l.attributes {
		s.attribute(d.Shape.Attribute(name))
	}
	return true
}

// unconditional reports whether everything that a device has can be taken together.
func unconditional(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	for _, c := range capacity {
		if c.RequestPolicy != nil || c.Value.Sign() < 0 {
			return false
		}
	}
	return true
}

func (l *lens) class(text []byte) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if class, known := l.classes[string(text)]; known {
		return class
	}
	if len(l.classes) == maxClasses {
		return 0
	}
	class := uint32(len(l.classes) + 1)
	l.classes[string(text)] = class
	return class
}

// state numbers what a place in use looks like, from 1.
func (l *lens) state(text []byte) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state, known := l.states[string(text)]; known {
		return state
	}
	if len(l.states) == maxStates {
		clear(l.states)
	}
	l.last++
	l.states[string(text)] = l.last
	return l.last
}
