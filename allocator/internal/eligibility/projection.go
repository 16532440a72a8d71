package eligibility

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
)

// Projection is what some selectors can tell about devices: the parts that they read. Shapes that
// agree in these have the same number, so that a selector that nobody used yet costs one
// evaluation for each number and not a look at each device. It is safe for concurrent use.
type Projection struct {
	programs []*cel.Program // one for each different set of reads
	// consumable is set if the capacities of devices that are not Plain are told apart,
	// with their policies for requests, capacities if those of all devices are.
	consumable, capacities bool
	numbers                memo.Numbers
}

const (
	// maxProjections is how many projections an Evaluator keeps.
	maxProjections = 64
	// maxNumbers is how many shapes a projection tells apart. Others have no number.
	maxNumbers = 1 << 9
)

// Reads is a set of what expressions read, with a program that reads it.
type Reads map[string]*cel.Program

// add is false if an expression may read anything, or does not compile.
func (r Reads) add(selectors []Selector) (bool, error) {
	for i := range selectors {
		if known, err := r.addProgram(selectors[i].program); !known {
			return false, err
		}
	}
	return true, nil
}

// AddDerived adds what derived attributes read. It is false if that may be anything, or an expression does
// not compile.
func (r Reads) AddDerived(attributes []Derived) (bool, error) {
	for i := range attributes {
		if known, err := r.addProgram(attributes[i].program); !known {
			return false, err
		}
	}
	return true, nil
}

func (r Reads) addProgram(program *cel.Program) (bool, error) {
	if program == nil || !program.Reads().Exact {
		return false, nil
	}
	key, err := json.Marshal(program.Reads())
	if err != nil {
		return false, fmt.Errorf("what an expression reads cannot be encoded: %w", err)
	}
	r[string(key)] = program
	return true, nil
}

// Projection returns the one that was made for the same reads. Capacities is set if some request asks for
// capacity. Filters made later have a new one
// once shapes that come now get no number, so that a projection does not wear out as drivers and
// models come and go.
func (e *Evaluator) Projection(r Reads, capacities bool) (*Projection, error) {
	keys := slices.Sorted(maps.Keys(r))
	key, err := json.Marshal(append(slices.Clone(keys), strconv.FormatBool(capacities)))
	if err != nil {
		return nil, fmt.Errorf("what selectors read cannot be encoded: %w", err)
	}
	if known, ok := e.projections.Get(string(key)); ok && !known.(*Projection).worn() {
		return known.(*Projection), nil
	}
	p := &Projection{consumable: e.features.ConsumableCapacity, capacities: capacities}
	for _, key := range keys {
		p.programs = append(p.programs, r[key])
	}
	e.projections.Add(string(key), p)
	return p, nil
}

func (p *Projection) worn() bool { return p.numbers.Full(maxNumbers) }

// Number is 0 for a shape that has none.
func (p *Projection) Number(shape *shape.Shape) uint32 {
	notes := notesOf(shape)
	number, known := notes.numbers.Get(p)
	if !known {
		number = p.look(shape)
		notes.numbers.Add(p, number, maxNotes)
	}
	return number
}

func (p *Projection) look(shape *shape.Shape) uint32 {
	var buffer [keySize]byte
	text, notes := buffer[:0], notesOf(shape)
	for _, program := range p.programs {
		var ok bool
		if text, ok = program.AppendProjection(text, notes.device); !ok {
			return 0
		}
	}
	if p.capacities || p.consumable && !notes.plain {
		var key memo.Key
		appendCapacities(&key, shape.Device)
		text = append(text, key.Bytes...)
	}
	return p.numbers.Of(text, maxNumbers)
}

// appendCapacities appends all that decides about what requests can take of a device.
func appendCapacities(k *memo.Key, device *resourceapi.Device) {
	k.Flags(ptr.Deref(device.AllowMultipleAllocations, false))
	k.Number(len(device.Capacity))
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		capacity := device.Capacity[name]
		k.Text(string(name))
		appendQuantity(k, &capacity.Value)
		policy := capacity.RequestPolicy
		if k.Flags(policy != nil); policy == nil {
			continue
		}
		appendQuantity(k, policy.Default)
		k.Number(len(policy.ValidValues))
		for i := range policy.ValidValues {
			appendQuantity(k, &policy.ValidValues[i])
		}
		if k.Flags(policy.ValidRange != nil); policy.ValidRange != nil {
			appendQuantity(k, policy.ValidRange.Min)
			appendQuantity(k, policy.ValidRange.Max)
			appendQuantity(k, policy.ValidRange.Step)
		}
	}
}
