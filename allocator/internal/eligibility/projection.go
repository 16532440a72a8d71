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

// Projection is what some selections can tell about devices: the parts that their selectors read, and
// the capacities where these decide. Shapes that agree in these have the same number, so that a
// selection that nobody used yet costs one evaluation for each number and not a look at each device.
// It is safe for concurrent use.
type Projection struct {
	programs []*cel.Program // one for each different set of reads
	// judging are the selections by whose verdicts shapes are told apart, instead of by what they read.
	judging   []*Selection
	evaluator *Evaluator
	// capacity is set if capacities are told apart even where devices are plain.
	capacity bool
	numbers  memo.Numbers
}

// maxNumbers is how many shapes a projection tells apart. Others have no number.
const maxNumbers = 1 << 9

// Reads is a set of what expressions read, with a program that reads it.
type Reads map[string]*cel.Program

// readsOf is nil if a selector may read anything, or does not compile.
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

// AddDerived adds what derived attributes read. It is false if one may read anything, or does not compile.
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

// Projection returns what filters and derived attributes can tell about devices. It is nil if a derived
// attribute may read anything (derived is nil). What selectors read is more than they tell, but problems that
// ask for other values have it in common. If they may read anything, or read what differs between
// all devices, such as a serial number, what they say of devices is all that is told apart.
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
		if p := e.projection(reads, nil, capacity, ""); !p.Worn() {
			return p
		}
	}
	slices.Sort(ids)
	return e.projection(derived, judging, capacity, fmt.Sprint(slices.Compact(ids)))
}

// projection returns the one that was made for the same reads and verdicts. Capacity is set if some request asks
// for capacity.
func (e *Evaluator) projection(r Reads, judging []*Selection, capacity bool, verdicts string) *Projection {
	reads := slices.Sorted(maps.Keys(r))
	key := fmt.Sprint(capacity, verdicts, reads)
	if known, ok := e.projections.Get(key); ok {
		return known.(*Projection)
	}
	p := &Projection{judging: judging, evaluator: e, capacity: capacity}
	for _, read := range reads {
		p.programs = append(p.programs, r[read])
	}
	e.projections.Add(key, p)
	return p
}

// Worn reports whether the projection is of what selectors read, and tells no further shapes apart. There is another
// one then.
func (p *Projection) Worn() bool { return p.judging == nil && p.numbers.Full(maxNumbers) }

// Number is 0 for a shape that has none, and once the context is cancelled perhaps for others.
func (p *Projection) Number(ctx context.Context, of *shape.Shape) uint32 {
	notes := notesOf(of)
	number, known := notes.numbers.Get(p)
	if !known {
		number = p.look(ctx, notes, of.Device.Capacity)
		if number == 0 && ctx.Err() != nil {
			return 0 // looking may have been interrupted
		}
		notes.numbers.Add(p, number, maxNotes)
	}
	return number
}

func (p *Projection) look(ctx context.Context, of *notes, capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) uint32 {
	var buffer [memo.KeySize]byte
	text := buffer[:0]
	for _, program := range p.programs {
		var ok bool
		if text, ok = program.AppendProjection(text, of.device); !ok {
			return 0
		}
	}
	for _, s := range p.judging {
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
	if !p.capacity && of.plain {
		return p.numbers.Of(append(text, 0), maxNumbers)
	}
	k := memo.Key{Bytes: append(text, 1)}
	keys.AppendCapacities(&k, capacities)
	return p.numbers.Of(k.Bytes, maxNumbers)
}

// notes are kept with a shape for as long as it lives.
type notes struct {
	device *cel.Device
	// numbers has what projections number the shape with.
	numbers memo.List[*Projection, uint32]
	// plain is set for devices that are had as a whole or not at all, whatever capacity is asked for.
	plain bool
	// unknowns are attributes of which the value is not known yet.
	unknowns []cel.Name
}

// unknown returns an attribute that a program reads and of which the value is not known yet.
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

// unknownsOf lists the attributes of which the value is not known yet.
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

// maxNotes bounds the numbers kept per shape. A cluster has a few classes and its claims a few
// kinds of selectors.
const maxNotes = 64

func notesOf(of *shape.Shape) *notes {
	return of.Attach(func() any {
		return &notes{
			device:   cel.NewDevice(of.Driver, of.Device),
			unknowns: unknownsOf(of),
			plain:    !ptr.Deref(of.Device.AllowMultipleAllocations, false) && unconditional(of.Device.Capacity),
		}
	}).(*notes)
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
