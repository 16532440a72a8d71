package allocator

import (
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// trail remembers what every write of the search replaced, so that a level can be
// undone without any undo code of its own.
type trail struct {
	counts      undoLog[int32]
	amounts     undoLog[amount.Amount]
	groups      undoLog[pools.GroupState]
	constraints undoLog[constraintState]
	words       undoLog[uint64]
	floors      undoLog[floor]
}

// mark is a point in the history of a trail.
type mark struct{ counts, amounts, groups, constraints, words, floors int }

func (t *trail) mark() mark {
	return mark{len(t.counts), len(t.amounts), len(t.groups), len(t.constraints), len(t.words), len(t.floors)}
}

// undo restores everything written since the mark.
func (t *trail) undo(to mark) {
	t.counts.undo(to.counts)
	t.amounts.undo(to.amounts)
	t.groups.undo(to.groups)
	t.constraints.undo(to.constraints)
	t.words.undo(to.words)
	t.floors.undo(to.floors)
}

// forget drops what was remembered.
func (t *trail) forget() {
	t.counts.forget()
	t.amounts.forget()
	t.groups.forget()
	t.constraints.forget()
	t.words.forget()
	t.floors.forget()
}

// undoLog is the history of writes to variables of one type.
type undoLog[T any] []overwritten[T]

type overwritten[T any] struct {
	at  *T
	old T
}

func (l *undoLog[T]) set(at *T, value T) {
	*l = append(*l, overwritten[T]{at, *at})
	*at = value
}

func (l *undoLog[T]) undo(length int) {
	for i := len(*l) - 1; i >= length; i-- {
		write := &(*l)[i]
		*write.at = write.old
		*write = overwritten[T]{}
	}
	*l = (*l)[:length]
}

func (l *undoLog[T]) forget() {
	clear(*l)
	*l = (*l)[:0]
}
