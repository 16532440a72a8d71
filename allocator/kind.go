package allocator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dray-project/dray/pools"
)

// kind is what problems have in common that ask for the same: which patterns of pools
// there are, and which answer nodes have whose pools follow the same patterns. A fleet
// is a few kinds of nodes, so most of its nodes cost one look-up. It is safe for
// concurrent use.
type kind struct {
	mu       sync.Mutex
	patterns map[string]uint32
	next     uint32
	// answers by signature: string → *answer.
	answers atomic.Pointer[sync.Map]
	known   atomic.Int64
}

// answer is a solution by position, or that there is none.
type answer struct {
	satisfiable bool
	choices     []choiceAt
	picked      [][]int
}

// choiceAt is a choice without pointers into one problem.
type choiceAt struct {
	alternative int // id
	device      int32
}

const (
	// maxPatterns and maxAnswers bound what a kind remembers before it starts anew.
	maxPatterns = 1 << 14
	maxAnswers  = 1 << 13
)

func newKind() *kind {
	k := &kind{patterns: make(map[string]uint32)}
	k.answers.Store(new(sync.Map))
	return k
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

func (k *kind) answer(signature []byte) *answer {
	if known, ok := k.answers.Load().Load(string(signature)); ok {
		return known.(*answer)
	}
	return nil
}

func (k *kind) remember(signature []byte, a *answer) {
	if k.known.Add(1) > maxAnswers {
		k.answers.Store(new(sync.Map))
		k.known.Store(1)
	}
	k.answers.Load().Store(string(signature), a)
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

// signature reduces a node to what the problem can see of it: the patterns of its pools
// and what is in use of them. Nodes with equal signatures have equal answers, by
// position. It is false for nodes that this says too little of.
func (p *Problem) signature(ctx context.Context, to []byte, view *pools.NodeView, u Usage) ([]byte, bool) {
	if _, ok := p.allocator.policy.(FirstFit); !ok || !view.ByName {
		return nil, false
	}
	for i := range view.Pools {
		pool := view.Pools[i].Pool
		number := p.pattern(ctx, &view.Pools[i])
		if number == 0 {
			return nil, false
		}
		to = binary.LittleEndian.AppendUint32(to, number)
		used := u.Pool(pool)
		if used.Idle() {
			to = append(to, 0)
			continue
		}
		bits, ok := used.Bits()
		if !ok {
			return nil, false
		}
		to = binary.LittleEndian.AppendUint64(append(to, 1), bits)
	}
	return to, true
}

// numbered is the number of a pool's pattern for one kind. It is an immutable list.
type numbered struct {
	kind   *kind
	number uint32
	next   *numbered
	length int
}

// pattern returns the number of the pattern of a pool that is whole, 0 if it has none or
// the context was cancelled.
func (p *Problem) pattern(ctx context.Context, view *pools.PoolView) uint32 {
	list := view.Pool.Attach(func() any { return new(atomic.Pointer[numbered]) }).(*atomic.Pointer[numbered])
	head := list.Load()
	for n := head; n != nil; n = n.next {
		if n.kind == p.kind {
			return n.number
		}
	}
	n := &numbered{kind: p.kind, next: head, length: 1}
	if head != nil {
		n.length = head.length + 1
	}
	if n.length > maxNotes {
		n.next, n.length = nil, 1
	}
	if key, ok := (&pattern{ctx: ctx, p: p, view: view}).key(); ok {
		n.number = p.kind.number(key)
	} else if ctx.Err() != nil {
		return 0 // not for good
	}
	list.CompareAndSwap(head, n)
	return n.number
}
