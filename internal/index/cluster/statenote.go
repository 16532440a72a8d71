package cluster

import "github.com/dray-project/dray/internal/index/pool"

// stateNote is a number that somebody gave to a place in one state of use. It is an
// immutable list.
type stateNote struct {
	of     any
	number uint32
	// first and others are what was in use of each pool.
	first  slotUsage
	others []slotUsage
	next   *stateNote
	length int
}

// slotUsage says that a pool was in that state, by Pool.Slot.
type slotUsage struct {
	slot  int
	usage *pool.Usage
}

// maxStateNotes bounds the notes of a place.
const maxStateNotes = 16

// Number returns the number that was given on somebody's behalf to the place in the state
// of use in which it is. It is false if none was, or if the state has changed since. A nil
// State stands for nothing in use.
func (p *Place) Number(of any, u *State) (uint32, bool) {
	for n := p.notes.Load(); n != nil; n = n.next {
		if n.of == of {
			return n.number, n.holds(u)
		}
	}
	return 0, false
}

func (n *stateNote) holds(u *State) bool {
	if u == nil {
		return n.first.usage == nil
	}
	if u.lazy == nil {
		return n.holdsIn(u)
	}
	if n.first.usage != nil && u.Pool(n.first.usage.Pool()) != n.first.usage {
		return false
	}
	for i := range n.others {
		if used := n.others[i].usage; u.Pool(used.Pool()) != used {
			return false
		}
	}
	return true
}

// holdsIn does not look at pools: it compares what the state has in their slots.
func (n *stateNote) holdsIn(u *State) bool {
	if n.first.usage != nil && u.pools.Get(n.first.slot) != n.first.usage {
		return false
	}
	for i := range n.others {
		if u.pools.Get(n.others[i].slot) != n.others[i].usage {
			return false
		}
	}
	return true
}

// SetNumber gives the place in this state of use a number, instead of the last one on
// the same behalf. It may be lost to a concurrent call.
func (p *Place) SetNumber(of any, u *State, number uint32) {
	note := &stateNote{of: of, number: number}
	for i, v := range p.views {
		if u == nil {
			break
		}
		state := slotUsage{slot: v.Pool.Slot, usage: u.Pool(v.Pool)}
		if i == 0 {
			note.first = state
		} else {
			note.others = append(note.others, state)
		}
	}
	head := p.notes.Load()
	note.next = head.without(of)
	if note.length = 1; note.next != nil {
		note.length += note.next.length
	}
	if note.length > maxStateNotes {
		note.next, note.length = nil, 1
	}
	p.notes.CompareAndSwap(head, note)
}

// without returns the list without the note of somebody.
func (n *stateNote) without(of any) *stateNote {
	if n == nil {
		return nil
	}
	if n.of == of {
		return n.next
	}
	rest := n.next.without(of)
	if rest == n.next {
		return n
	}
	kept := *n
	kept.next, kept.length = rest, n.length-1
	return &kept
}
