// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

// journal is a map with nested forks. It records old values, so that changes since a fork can be reverted.
type journal[K comparable, V any] struct {
	now map[K]V
	// before has, for each open fork, the old entries of the keys that changed since.
	before []map[K]former[V]
}

// former is an old entry of the map, or the fact that there was none.
type former[V any] struct {
	value V
	found bool
}

func newJournal[K comparable, V any](initial map[K]V) journal[K, V] {
	j := journal[K, V]{now: make(map[K]V, len(initial))}
	for key, value := range initial {
		j.now[key] = value
	}
	return j
}

func (j *journal[K, V]) set(key K, value V) {
	j.remember(key)
	j.now[key] = value
}

func (j *journal[K, V]) delete(key K) {
	j.remember(key)
	delete(j.now, key)
}

func (j *journal[K, V]) remember(key K) {
	if len(j.before) == 0 {
		return
	}
	last := j.before[len(j.before)-1]
	if _, known := last[key]; !known {
		value, found := j.now[key]
		last[key] = former[V]{value, found}
	}
}

func (j *journal[K, V]) fork() { j.before = append(j.before, make(map[K]former[V])) }

// commit closes the last fork and keeps the changes since. Without a fork it does nothing.
func (j *journal[K, V]) commit() {
	last := len(j.before) - 1
	if last < 0 {
		return
	}
	changed := j.before[last]
	j.before = j.before[:last]
	if last == 0 {
		return
	}
	for key, had := range changed {
		if _, known := j.before[last-1][key]; !known {
			j.before[last-1][key] = had
		}
	}
}

// revert closes the last fork and undoes the changes since. It calls visit for each key with the values before
// and after the undo, zero if there is none. Without a fork it does nothing.
func (j *journal[K, V]) revert(visit func(key K, before, after V)) {
	last := len(j.before) - 1
	if last < 0 {
		return
	}
	changed := j.before[last]
	j.before = j.before[:last]
	for key, had := range changed {
		undone := j.now[key]
		if had.found {
			j.now[key] = had.value
		} else {
			delete(j.now, key)
		}
		if visit != nil {
			visit(key, undone, had.value)
		}
	}
}
