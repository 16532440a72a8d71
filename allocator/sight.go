package allocator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// sight is what some selectors can tell about devices: the parts that they read. Shapes
// that agree in these have the same number, so that a selector nobody used yet costs one
// evaluation for each number and not a look at each device. It is safe for concurrent use.
type sight struct {
	programs []*cel.Program // one for each different set of reads
	numbers  numbering
}

// maxSights is how many sights an Allocator keeps, maxNumbers how many shapes each of
// them tells apart. Others have no number.
const (
	maxSights  = 64
	maxNumbers = 1 << 9
)

// reads is a set of what expressions read, with a program that reads it.
type reads map[string]*cel.Program

// add is false if an expression may read anything, or does not compile.
func (r reads) add(selectors []selector) (bool, error) {
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

// sight returns the one that was made for the same reads. Filters made later have a new one
// once shapes that come now get no number, so that a sight does not wear out as drivers and
// models come and go.
func (a *Allocator) sight(r reads) (*sight, error) {
	keys := slices.Sorted(maps.Keys(r))
	key, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("what selectors read cannot be encoded: %w", err)
	}
	if known, ok := a.sights.Get(string(key)); ok && !known.(*sight).numbers.full(maxNumbers) {
		return known.(*sight), nil
	}
	s := &sight{}
	for _, key := range keys {
		s.programs = append(s.programs, r[key])
	}
	a.sights.Add(string(key), s)
	return s, nil
}

// number is 0 for a shape that has none.
func (s *sight) number(shape *pools.Shape) uint32 {
	notes := notesOf(shape)
	number, known := notes.seen.get(s)
	if !known {
		number = s.look(notes.device)
		notes.seen.add(s, number, maxNotes)
	}
	return number
}

func (s *sight) look(device *cel.Device) uint32 {
	var buffer [256]byte
	text := buffer[:0]
	for _, program := range s.programs {
		var ok bool
		if text, ok = program.AppendProjection(text, device); !ok {
			return 0
		}
	}
	return s.numbers.of(text, maxNumbers)
}
