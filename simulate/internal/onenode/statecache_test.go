// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/dray-project/dray/pools"
)

// remembered counts what contents and states really have.
func remembered(contents []*content, states map[*State]bool) (total int) {
	for _, c := range contents {
		total += len(c.states)
	}
	for s := range states {
		pages := s.answers.Load()
		if pages == nil {
			continue
		}
		for _, p := range *pages {
			for i := 0; p != nil && i < len(p); i++ {
				if a := p[i].Load(); a != nil {
					total += 1 + len(a.ahead)
				}
			}
		}
	}
	return total
}

// usesOf has one device in use.
func usesOf(device int) Uses { return Uses{{Device: int32(device), use: use{Wholes: 1}}} }

// The states and answers of all contents together never exceed Total.
func TestTotalIsBounded(t *testing.T) {
	const most = 300
	r := rand.New(rand.NewPCG(1, 2))
	k := &stateCache{Bounds: Bounds{Nodes: 100, States: 5, Answers: 2 * answerPageSize, Total: most}}
	l := emptyReadSet(pools.Gates{}, k)
	var contents []*content
	for i := range 8 {
		contents = append(contents, l.content([]byte{byte(i)}, &Inventory{}))
	}
	states := make(map[*State]bool)
	highest := 0
	for step := range 20_000 {
		s := contents[r.IntN(len(contents))].state(usesOf(r.IntN(30)))
		states[s] = true
		if r.IntN(3) > 0 {
			s.learn((&Answer{question: &Question{id: r.IntN(200)}, ahead: make([]decision, r.IntN(5))}).about(s))
		}
		total, _ := k.size()
		if found := remembered(contents, states); found != total || found > most {
			t.Fatalf("step %d: %d states and answers are remembered, %d by the count, of %d at most", step, found, total, most)
		}
		highest = max(highest, total)
	}
	if _, forgotten := k.size(); forgotten < 10 || highest < most-10 {
		t.Errorf("all was forgotten %d times, there were %d at most", forgotten, highest)
	}
}

// The same holds for several goroutines, which find nothing but what was learned.
func TestTotalIsBoundedConcurrently(t *testing.T) {
	const most, each = 100, 2000
	k := &stateCache{Bounds: Bounds{Nodes: 100, States: 5, Answers: 2 * answerPageSize, Total: most}}
	l := emptyReadSet(pools.Gates{}, k)
	contents := []*content{l.content([]byte{0}, &Inventory{}), l.content([]byte{1}, &Inventory{})}
	states := make(map[*State]bool)
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 2))
			for range each {
				s := contents[r.IntN(2)].state(usesOf(r.IntN(30)))
				mu.Lock()
				states[s] = true
				mu.Unlock()
				id := r.IntN(100)
				if a := s.learn((&Answer{question: &Question{id: id}}).about(s)); a.question.id != id || a.from != s {
					t.Error("another answer is known")
				}
				if a := s.known(id); a != nil && (a.question.id != id || a.from != s) {
					t.Error("another answer is found")
				}
			}
		})
	}
	all.Wait()
	total, forgotten := k.size()
	if found := remembered(contents, states); found > total || total > most || forgotten == 0 {
		t.Errorf("%d states and answers are remembered, %d by the count, of %d at most; forgotten %d times", found, total, most, forgotten)
	}
}
