// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
)

// Projection numbers shapes by what some selections can tell about them: the values that their selectors read,
// and capacities where these matter. Shapes with equal values have one number. So a new selection is evaluated
// once for each number, and not for each device. It is safe for concurrent use.
type Projection struct {
	programs []*cel.Program // one for each set of reads
	// selections are those whose results distinguish shapes, in place of the values that they read.
	selections []*Selection
	evaluator  *Evaluator
	// readsCapacity is set if capacities distinguish shapes that can only be taken whole, too.
	readsCapacity bool
	numbers       memo.Numbers
}

// maxNumbers is how many shapes a projection numbers. Further shapes have number 0.
const maxNumbers = 1 << 9

// Reads maps each distinct read set of expressions to one program that has it.
type Reads map[string]*cel.Program

// readsOf returns the read sets of all selectors. It is nil if a selector may read anything, or does not
// compile.
func readsOf(offers [][]Selector) Reads {
	all := make(Reads)
	for _, selectors := range offers {
		for i := range selectors {
			if !all.add(selectors[i].program) {
				return nil
			}
		}
	}
	return all
}

// AddDerived adds what derived attributes read. It is false if one of them may read anything, or does not
// compile.
func (r Reads) AddDerived(attributes []Derived) bool {
	for i := range attributes {
		if !r.add(attributes[i].program) {
			return false
		}
	}
	return true
}

func (r Reads) add(program *cel.Program) bool {
	if program == nil || !program.Reads().Exact {
		return false
	}
	r[fmt.Sprintf("%#v", program.Reads())] = program
	return true
}

// Projection returns the numbering for filters and derived attributes. It is nil if a derived attribute may
// read anything (derived is nil).
//
// By default shapes are numbered by the values that selectors read: these say more than the results, but
// problems that ask for other values can share the numbering. If selectors may read anything, or read what
// differs in all devices, such as a serial number, shapes are numbered by the results.
func (e *Evaluator) Projection(filters []*Filter, derived Reads) *Projection {
	if derived == nil {
		return nil
	}
	reads, exact, capacity, ids := maps.Clone(derived), true, false, []int64{}
	var judging []*Selection
	for _, f := range filters {
		judging = append(judging, f.Selection)
		maps.Copy(reads, f.reads)
		exact = exact && f.reads != nil
		capacity = capacity || f.capacity != nil
		ids = append(ids, f.id)
	}
	if exact {
		if p := e.projection(reads, nil, capacity, ""); !p.Full() {
			return p
		}
	}
	slices.Sort(ids)
	return e.projection(derived, judging, capacity, fmt.Sprint(slices.Compact(ids)))
}

// projection returns the cached Projection for the same reads and verdicts, or makes it. Capacity is set if a
// request asks for capacity.
func (e *Evaluator) projection(r Reads, judging []*Selection, capacity bool, verdicts string) *Projection {
	reads := slices.Sorted(maps.Keys(r))
	key := fmt.Sprint(capacity, verdicts, reads)
	if known, ok := e.projections.Get(key); ok {
		return known.(*Projection)
	}
	p := &Projection{selections: judging, evaluator: e, readsCapacity: capacity}
	for _, read := range reads {
		p.programs = append(p.programs, r[read])
	}
	e.projections.Add(key, p)
	return p
}

// Full reports whether the projection numbers by what selectors read, and has no numbers left.
// Evaluator.Projection then numbers by results.
func (p *Projection) Full() bool { return p.selections == nil && p.numbers.Full(maxNumbers) }

// Number is 0 for a shape without a number. It may also be 0 if the context is cancelled.
func (p *Projection) Number(ctx context.Context, of *shape.Shape) uint32 {
	notes := notesOf(of)
	number, known := notes.numbers.Get(p)
	if !known {
		number = p.computeNumber(ctx, notes, of.Device.Capacity)
		if number == 0 && ctx.Err() != nil {
			return 0 // matching may have been interrupted
		}
		notes.numbers.Add(p, number, maxNotes)
	}
	return number
}

func (p *Projection) computeNumber(ctx context.Context, of *notes, capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) uint32 {
	var buffer [memo.KeySize]byte
	text := buffer[:0]
	for _, program := range p.programs {
		var ok bool
		if text, ok = program.AppendProjection(text, of.device); !ok {
			return 0
		}
	}
	for _, s := range p.selections {
		for _, selectors := range s.offers {
			rejectedBy, err := p.evaluator.matches(ctx, selectors, of)
			if err != nil {
				return 0
			}
			text = binary.AppendVarint(text, int64(rejectedBy))
			if rejectedBy < 0 {
				break
			}
		}
	}
	if !p.readsCapacity && of.takenWhole {
		return p.numbers.Of(append(text, 0), maxNumbers)
	}
	k := memo.Key{Bytes: append(text, 1)}
	keys.AppendCapacities(&k, capacities)
	return p.numbers.Of(k.Bytes, maxNumbers)
}

// notes are cached with a shape for as long as it lives.
type notes struct {
	device *cel.Device
	// numbers are the numbers of the shape, by projection.
	numbers memo.List[*Projection, uint32]
	// takenWhole is set for devices that can only be taken whole, whatever capacity is requested.
	takenWhole bool
	// unknowns are attributes whose value is not known yet.
	unknowns []cel.Name
}

// unknown returns an attribute that a program reads and whose value is not known yet.
func (n *notes) unknown(p *cel.Program) (name cel.Name, found bool) {
	if len(n.unknowns) == 0 || p == nil {
		return cel.Name{}, false
	}
	reads := p.Reads()
	for _, name := range n.unknowns {
		if !reads.Exact || slices.Contains(reads.Attributes, name) {
			return name, true
		}
	}
	return cel.Name{}, false
}

// unknownsOf lists the attributes whose value is not known yet.
func unknownsOf(s *shape.Shape) []cel.Name {
	var list []cel.Name
	for key, attribute := range s.Device.Attributes {
		if !shape.Unknown(&attribute) {
			continue
		}
		name := cel.Name{Domain: s.Driver, ID: string(key)}
		if domain, id, qualified := strings.Cut(string(key), "/"); qualified {
			name = cel.Name{Domain: domain, ID: id}
		}
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b cel.Name) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// maxNotes bounds the numbers per shape. A cluster has few classes, and its claims use few sets of selectors.
const maxNotes = 64

func notesOf(of *shape.Shape) *notes {
	return of.Attach(func() any {
		return &notes{
			device:     cel.NewDevice(of.Driver, of.Device),
			unknowns:   unknownsOf(of),
			takenWhole: !ptr.Deref(of.Device.AllowMultipleAllocations, false) && unconditional(of.Device.Capacity),
		}
	}).(*notes)
}

// unconditional reports whether all capacities of a device can be consumed wholly and together: none has a
// request policy or is negative.
func unconditional(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	for _, c := range capacity {
		if c.RequestPolicy != nil || c.Value.Sign() < 0 {
			return false
		}
	}
	return true
}
