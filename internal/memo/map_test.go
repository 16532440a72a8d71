// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo_test

import (
	"sync"
	"testing"

	"github.com/dray-project/dray/internal/memo"
)

// A Map never has more than it may, and what it has is what was added last.
func TestMapIsBounded(t *testing.T) {
	const most = 4
	var m memo.Map[int, int]
	for i := range 100 {
		m.Add(i%7, i, most)
		if got, known := m.Get(i % 7); !known || got != i {
			t.Fatalf("after adding %d: %d, %t", i, got, known)
		}
		n := 0
		for key, value := range m.All {
			if n++; value%7 != key || value > i {
				t.Errorf("%d: %d", key, value)
			}
		}
		if n > most {
			t.Fatalf("%d are kept", n)
		}
	}
	var off memo.Map[int, int]
	if off.Add(1, 1, 0); len(keysOf(&off)) != 0 {
		t.Error("something is kept of what may keep nothing")
	}
}

// Concurrent users find nothing but what was added.
func TestMapIsConcurrent(t *testing.T) {
	var m memo.Map[int, int]
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				m.Add(i%50, i%50, 20)
				if got, known := m.Get(i % 50); known && got != i%50 {
					t.Errorf("%d: %d", i%50, got)
				}
			}
		})
	}
	all.Wait()
	if n := len(keysOf(&m)); n > 20+4 {
		t.Errorf("%d are kept", n)
	}
}

func keysOf(m *memo.Map[int, int]) (list []int) {
	for key := range m.All {
		list = append(list, key)
	}
	return list
}
