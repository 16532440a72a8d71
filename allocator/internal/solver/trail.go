package solver

import "github.com/dray-project/dray/internal/amount"

// trail remembers what every write of the search replaced, so that a decision can be taken
// back without code of its own.
type trail struct {
	counts    undoLog[int32]
	amounts   undoLog[amount.Amount]
	relations undoLog[relationState]
	words     undoLog[uint64]
}

// mark is a point in the history of a trail.
type mark struct{ counts, amounts, relations, words int }

func (t *trail) mark() mark {
	return mark{len(t.counts), len(t.amounts), len(t.relations), len(t.words)}
}

// undo restores everything written since the mark.
func (t *trail) undo(to mark) {
	t.counts.undo(to.counts)
	t.amounts.undo(to.amounts)
	t.relations.undo(to.relations)
	t.words.undo(to.words)
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
	}
	clear((*l)[length:])
	*l = (*l)[:length]
}
