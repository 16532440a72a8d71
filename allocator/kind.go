package allocator

import (
	"context"
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
	ofClass numberTable
	// ofState has answers by state of the lens.
	ofState stateTable
	// patterns numbers them. Answers may mention one that is forgotten.
	patterns numbering
}

// answer is a solution by position, or that there is none.
type answer struct {
	satisfiable bool
	// literal is set if devices in the way might have been errors, with others in use.
	literal bool
	choices []choiceAt
	picked  [][]int
	root    atomic.Pointer[inquiry] // nil if nobody asked
	core    atomic.Pointer[[]part]  // nil if nobody asked
}

// conflictCore finds it out once for all nodes and problems that share the answer.
func (a *answer) conflictCore(ctx context.Context, in *instance) []part {
	if known := a.core.Load(); known != nil {
		return *known
	}
	found := conflictCore(ctx, in)
	a.core.Store(&found)
	return found
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
	return &kind{answers: newAnswers()}
}

// kindOf returns the kind of a compiled problem.
func (a *Allocator) kindOf(p *Problem) (*kind, error) {
	var buffer [signatureSize]byte
	key := string(p.kindKey(buffer[:0]))
	if known, ok := a.kinds.Get(key); ok {
		return known.(*kind), nil
	}
	k := newKind()
	var err error
	if k.lens, err = a.lensOf(p); err != nil {
		return nil, err
	}
	a.kinds.Add(key, k)
	return k, nil
}

// kindKey spells out what is asked for. Names of claims and requests, and
// configurations, make no difference to which devices are chosen.
func (p *Problem) kindKey(to []byte) []byte {
	s := spelling{text: to}
	for c := range p.claims {
		s.number(uint32(len(p.claims[c].constraints)))
		for _, constraint := range p.claims[c].constraints {
			s.string(constraint.String())
		}
		s.number(uint32(len(p.claims[c].requests)))
		for r := range p.claims[c].requests {
			s.number(uint32(len(p.claims[c].requests[r].alternatives)))
			for _, alt := range p.claims[c].requests[r].alternatives {
				s.alternative(alt, p.filters[alt.filter].id)
			}
		}
	}
	return s.text
}

func (s *spelling) alternative(alt *alternative, filter int64) {
	s.serial(filter)
	s.flags(alt.all)
	s.number(uint32(alt.count))
	s.number(uint32(len(alt.constraints)))
	for _, position := range alt.constraints {
		s.number(uint32(position))
	}
	s.number(uint32(len(alt.derived)))
	for i := range alt.derived {
		s.string(string(alt.derived[i].name))
		s.string(alt.derived[i].expression)
	}
}
