package allocator

import "math/bits"

// levels is a set of decision levels: a conflict, as the decisions of which at least
// one has to change. Level n is the n-th decision on the way down.
type levels []uint64

func (l *levels) add(level int) {
	for len(*l) <= level/64 {
		*l = append(*l, 0)
	}
	(*l)[level/64] |= 1 << (level % 64)
}

func (l levels) has(level int) bool {
	return level/64 < len(l) && l[level/64]&(1<<(level%64)) != 0
}

// addBelow adds the levels of other below a level.
func (l *levels) addBelow(other levels, level int) {
	for w, word := range other {
		for ; word != 0; word &= word - 1 {
			if n := w*64 + bits.TrailingZeros64(word); n < level {
				l.add(n)
			}
		}
	}
}

func (l *levels) clear() { *l = (*l)[:0] }
