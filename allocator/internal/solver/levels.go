package solver

import "math/bits"

// levels is a set of decision levels. As a conflict, it is decisions of which at least one
// has to change. Level n is the n-th decision on the way down.
type levels []uint64

func (l *levels) add(level int32) {
	for int(level/64) >= len(*l) {
		*l = append(*l, 0)
	}
	(*l)[level/64] |= 1 << (level % 64)
}

func (l levels) has(level int32) bool {
	return int(level/64) < len(l) && l[level/64]&(1<<(level%64)) != 0
}

// addBelow adds the levels of other that are lower than a level.
func (l *levels) addBelow(other levels, level int32) {
	for w, word := range other {
		for ; word != 0; word &= word - 1 {
			if n := int32(w*64 + bits.TrailingZeros64(word)); n < level {
				l.add(n)
			}
		}
	}
}

// addAll adds all levels that are lower than a level.
func (l *levels) addAll(level int32) {
	for n := range level {
		l.add(n)
	}
}
