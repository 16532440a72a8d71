package allocator

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
)

// kind is what problems have in common that ask for the same: which patterns of pools
// there are, and which answers nodes have whose pools follow the same patterns. A fleet
// is a few kinds of nodes, so most of its nodes cost one look-up. It is safe for
// concurrent use.
type kind struct {
	*answers
	lens *lens // nil if there is none
	// ofClass has the number of the pattern by class of the lens.
	ofClass classTable
	// ofState has answers by state of the lens.
	ofState  stateTable
	mu       sync.Mutex
	patterns map[string]uint32
	next     uint32
}

// answer is a solution by position, or that there is none.
type answer struct {
	satisfiable bool
	// literal is set if devices in the way might have been errors, with others in use.
	literal bool
	choices []choiceAt
	picked  [][]int
	root    atomic.Pointer[inquiry] // nil if nobody asked
}

func (a *answer) verdict() Verdict {
	if a.satisfiable {
		return Satisfiable
	}
	return NotSatisfiable
}

// choiceAt is a choice without pointers into one problem.
type choiceAt struct {
	alternative int // id
	// place counts the devices that are on the node, in the order of the view.
	place int32
}

// maxPatterns bounds what a kind remembers before it starts anew.
const maxPatterns = 1 << 14

func newKind() *kind {
	return &kind{answers: newAnswers(), patterns: make(map[string]uint32)}
}

// kindOf returns the kind of a compiled problem.
func (a *Allocator) kindOf(p *Problem) (*kind, error) {
	key, err := p.kindKey()
	if err != nil {
		return nil, err
	}
	if known, ok := a.kinds.Get(key); ok {
		return known.(*kind), nil
	}
	k := newKind()
	if k.lens, err = a.lensOf(p); err != nil {
		return nil, err
	}
	a.kinds.Add(key, k)
	return k, nil
}

// kindKey spells out what is asked for. Names of claims and requests, and
// configurations, make no difference to which devices are chosen.
func (p *Problem) kindKey() (string, error) {
	var spelled []any
	for c := range p.claims {
		var constraints []string
		for _, constraint := range p.claims[c].constraints {
			constraints = append(constraints, constraint.String())
		}
		spelled = append(spelled, constraints)
		for _, request := range p.claims[c].requests {
			for _, alt := range request.alternatives {
				var derived []string
				for _, d := range alt.derived {
					derived = append(derived, string(d.name), d.expression)
				}
				spelled = append(spelled, alt.claim, alt.request, p.filters[alt.filter].id, alt.all, alt.count, alt.constraints, derived)
			}
		}
	}
	key, err := json.Marshal(spelled)
	if err != nil {
		return "", fmt.Errorf("problem cannot be encoded: %w", err)
	}
	return string(key), nil
}

// number interns a pattern. Numbers are never given twice, so that answers which still
// mention a forgotten pattern are merely not found.
func (k *kind) number(pattern []byte) uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n, known := k.patterns[string(pattern)]; known {
		return n
	}
	if len(k.patterns) >= maxPatterns {
		clear(k.patterns)
	}
	k.next++
	k.patterns[string(pattern)] = k.next
	return k.next
}
