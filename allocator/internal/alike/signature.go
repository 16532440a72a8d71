package alike

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// signatureSize is room for most signatures.
const signatureSize = 256

// What a signature says of a pool.
const (
	unusablePool byte = iota
	// patternedPool: any pool of the same pattern in the same state of use is as good.
	patternedPool
	// samePool: only this pool in this state of use is.
	samePool
)

// state returns the number of what the problem's lens sees of a place, 0 if it does not
// see enough. It is remembered with the place as long as nothing changes there.
func (p *Problem) state(place *cluster.Place, u *cluster.State) uint32 {
	number, known := place.Number(p.kind.lens, u)
	if known {
		return number
	}
	number = p.numbered(place, u)
	place.SetNumber(p.kind.lens, u, number)
	return number
}

// idle is on whose behalf a place has the number of the state in which nothing is in use.
type idle struct{ *lens }

// idleState is state as if nothing was in use.
func (p *Problem) idleState(place *cluster.Place) uint32 {
	of := idle{p.kind.lens}
	number, known := place.Number(of, nil)
	if known {
		return number
	}
	number = p.numbered(place, idleUsage{})
	place.SetNumber(of, nil, number)
	return number
}

// idleUsage is that nothing is in use.
type idleUsage struct{}

func (idleUsage) Pool(p *pool.Pool) *pool.Usage { return p.Idle() }

func (p *Problem) numbered(place *cluster.Place, u eligibility.Usage) uint32 {
	var buffer [signatureSize]byte
	seen := signature{text: buffer[:0]}
	if !seen.add(place.Views(), u, p.WantsAll, p.class) {
		return 0
	}
	return p.kind.lens.states.Again(seen.text, maxStates)
}

// class is what the problem's lens sees of a pool on a node. A pool without a class is
// none that a number could stand for.
func (p *Problem) class(view *pool.View) (uint32, []shape.Value, bool) {
	if view.Common || view.Here() > maxPatternDevices {
		return 0, nil, true
	}
	class := p.classOf(view)
	return class.number, class.values, class.number != 0
}

// signature reduces a node to what the problem can see of it. Nodes with equal signatures
// have equal answers, by position. It is nil if the node has to be looked at.
func (p *Problem) signature(ctx context.Context, to []byte, view *cluster.NodeView, u eligibility.Usage) []byte {
	if !p.deterministic {
		return nil
	}
	seen := signature{text: append(to, flagByte(eligibility.OperatesOptionally(view.Node)))}
	if !seen.add(view.Pools, u, p.WantsAll, func(pv *pool.View) (uint32, []shape.Value, bool) {
		number, values := p.pattern(ctx, pv)
		return number, values, true
	}) {
		return nil
	}
	return seen.text
}

// signature is bytes that are equal for nodes that are alike.
type signature struct {
	text   []byte
	values []shape.Value
	// same is set if it is about one pool and no other, patterned counts the pools with
	// values of which only the equalities matter.
	same      bool
	patterned int
}

// add is false if that cannot be said. number returns the number of what a pool looks like
// and the values that it names by position, 0 if there is none other like it, and whether
// that is to be relied on.
func (s *signature) add(views []*pool.View, u eligibility.Usage, wantsAll bool, number func(*pool.View) (uint32, []shape.Value, bool)) bool {
	for _, pv := range views {
		if !pv.Usable() {
			if wantsAll {
				return false // an error
			}
			s.text = append(s.text, unusablePool)
			continue
		}
		if pv.Uncertain {
			return false
		}
		n, values, ok := number(pv)
		if !ok {
			return false
		}
		s.pool(pv, u.Pool(pv.Pool), n, values)
	}
	s.equalities()
	return true
}

func (s *signature) pool(pv *pool.View, used *pool.Usage, number uint32, values []shape.Value) {
	if number == 0 {
		s.text = append(s.text, samePool)
		s.text = binary.LittleEndian.AppendUint64(s.text, pv.Serial())
		s.text = binary.LittleEndian.AppendUint64(s.text, used.Serial())
		s.same = true
		return
	}
	s.text = append(s.text, patternedPool)
	s.text = binary.LittleEndian.AppendUint32(s.text, number)
	s.text = used.AppendKey(s.text, pv)
	if len(values) > 0 {
		s.values = append(s.values, values...)
		s.patterned++
	}
}

// equalities appends which of the values of several pools are equal: constraints see
// nothing else. They may also compare them with those of a pool that is but one.
func (s *signature) equalities() {
	for i, v := range s.values {
		switch {
		case s.same:
			s.text = v.AppendKey(s.text)
		case s.patterned > 1:
			s.text = binary.AppendUvarint(s.text, uint64(i-slices.Index(s.values[:i+1], v)))
		}
	}
}

func flagByte(flag bool) byte {
	if flag {
		return 1
	}
	return 0
}

// appearance is what a pool on a node looks like, to a kind or through a lens.
type appearance struct {
	// number is that of a pattern or a class, 0 if there is none.
	number uint32
	// values are the different ones that constraints compare, as they come.
	values []shape.Value
}

// appearances are by *kind or *lens.
type appearances = memo.List[any, appearance]

// pattern returns the number of the pattern of a pool on a node, and the values which it
// names by position. The number is 0 if there is no pattern, or the context was cancelled.
func (p *Problem) pattern(ctx context.Context, view *pool.View) (uint32, []shape.Value) {
	if view.Common || view.Here() > maxPatternDevices {
		return 0, nil
	}
	if p.kind.lens == nil {
		return p.spelled(ctx, view)
	}
	class := p.classOf(view)
	if class.number == 0 {
		return p.spelled(ctx, view)
	}
	number, known := p.kind.ofClass.Get(class.number)
	if !known {
		if number = p.spell(ctx, view, class.number).number; ctx.Err() != nil {
			return 0, nil
		}
		p.kind.ofClass.Set(class.number, number)
	}
	return number, class.values
}

func appearancesOf(view *pool.View) *appearances {
	return view.Attach(func() any { return new(appearances) }).(*appearances)
}

// classOf returns the class of a pool on a node for the problem's lens.
func (p *Problem) classOf(view *pool.View) appearance {
	notes := appearancesOf(view)
	class, known := notes.Get(p.kind.lens)
	if !known {
		class = p.kind.lens.look(view)
		notes.Add(p.kind.lens, class, maxAppearances)
	}
	return class
}

// spelled returns the pattern of a pool that has no class.
func (p *Problem) spelled(ctx context.Context, view *pool.View) (uint32, []shape.Value) {
	notes := appearancesOf(view)
	pattern, known := notes.Get(p.kind)
	if !known {
		if pattern = p.spell(ctx, view, 0); ctx.Err() != nil {
			return 0, nil // not for good
		}
		notes.Add(p.kind, pattern, maxAppearances)
	}
	return pattern.number, pattern.values
}

func (p *Problem) spell(ctx context.Context, view *pool.View, class uint32) appearance {
	t := &pattern{ctx: ctx, p: p, view: view, class: class}
	if !t.spell() {
		return appearance{}
	}
	return appearance{number: p.kind.patterns.Again(t.Bytes, maxPatterns), values: t.values}
}

// maxAppearances bounds what is kept with a pool on a node.
const maxAppearances = 64
