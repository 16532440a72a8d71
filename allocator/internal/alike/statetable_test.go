package alike

import "testing"

// Goroutines that share a table come with their states in any order.
func TestStateTableInAnyOrder(t *testing.T) {
	var table stateTable
	answers := make(map[uint32]*Answer)
	for _, state := range []uint32{40, 41, 39, 20, 100, 1, 2, 77} {
		answers[state] = new(Answer)
		table.set(state, answers[state])
	}
	for state, want := range answers {
		if table.get(state) != want {
			t.Errorf("the answer for %d is not that which was set", state)
		}
	}
	for _, state := range []uint32{0, 21, 38, 101, 1000} {
		if table.get(state) != nil {
			t.Errorf("there is an answer for %d", state)
		}
	}
}
