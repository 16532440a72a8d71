// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shared has values that the profiles of a scheduler have in common, for as long as one of them runs.
package shared

import (
	"context"
	"reflect"
	"sync"
)

// Values has one value for each key. The zero value is empty. It is safe for concurrent use.
type Values[K comparable, V any] struct {
	mu     sync.Mutex
	shared map[K]*value[V]
}

type value[V any] struct {
	of    V
	users int
}

// Of returns the value of a key. The first call for a key makes it with first. The value is dropped when the
// contexts of all callers have ended. A key that is not comparable gets a new value each time.
func (s *Values[K, V]) Of(ctx context.Context, key K, first func() V) V {
	if !reflect.ValueOf(key).Comparable() {
		return first()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.shared[key]
	if known == nil {
		if s.shared == nil {
			s.shared = map[K]*value[V]{}
		}
		known = &value[V]{of: first()}
		s.shared[key] = known
	}
	known.users++
	context.AfterFunc(ctx, func() { s.leave(key, known) })
	return known.of
}

func (s *Values[K, V]) leave(key K, known *value[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known.users--; known.users == 0 {
		delete(s.shared, key)
	}
}

// Len returns the number of values.
func (s *Values[K, V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shared)
}
