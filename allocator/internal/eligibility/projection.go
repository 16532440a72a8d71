package eligibility

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
)

// Projection is what some selectors can tell about devices: the parts that they read. Shapes that
// agree in these have the same number, so that a selector that nobody used yet costs one
// evaluation for each number and not a look at each device. It is safe for concurrent use.
type Projection struct {
	programs []*cel.Program // one for each different set of reads
	numbers  memo.Numbers
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
	for _, s := range selectors {
		if s.program == nil || !s.program.Reads().Exact {
			return false, nil
		}
		key, err := json.Marshal(s.program.Reads())
		if err != nil {
			return false, fmt.Errorf("what a selector reads cannot be encoded: %w", err)
		}
		r[string(key)] = s.program
	}
	return true, nil
}

// Projection returns the one that was made for the same reads. Filters made later have a new one
// once shapes that come now get no number, so that a projection does not wear out as drivers and
// models come and go.
func (e *Evaluator) Projection(r Reads) (*Projection, error) {
	keys := slices.Sorted(maps.Keys(r))
	key, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("what selectors read cannot be encoded: %w", err)
	}
	if known, ok := e.projections.Get(string(key)); ok && !known.(*Projection).worn() {
		return known.(*Projection), nil
	}
	p := &Projection{}
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
		number = p.look(notes.device)
		notes.numbers.Add(p, number, maxNotes)
	}
	return number
}

func (p *Projection) look(device *cel.Device) uint32 {
	var buffer [keySize]byte
	text := buffer[:0]
	for _, program := range p.programs {
		var ok bool
		if text, ok = program.AppendProjection(text, device); !ok {
			return 0
		}
	}
	return p.numbers.Of(text, maxNumbers)
}
