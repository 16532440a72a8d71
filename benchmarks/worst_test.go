package benchmarks

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/peer"
)

// The worst cases take no more steps than when they were found, and those that were mended no
// more than since then.
func TestWorstCasesGetNoWorse(t *testing.T) {
	mended, err := MendedCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range append(worstCases(t), mended...) {
		m, err := new(peer.Meter).Measure(t.Context(), w.Case)
		if err != nil || (m.Err != nil) != w.Fails {
			t.Fatal(w.Name, err, m.Err)
		}
		if w.Fails {
			continue
		}
		assignment, fits := m.Outcome.(*allocator.Assignment)
		if _, undecided := m.Outcome.(*allocator.Undecided); fits != w.Fits || undecided && !w.Undecided {
			t.Errorf("%s: %T", w.Name, m.Outcome)
		}
		if fits {
			verifyCliff(t, w.Case, assignment)
		}
		if steps := m.Outcome.Stats().Steps; steps > w.Steps {
			t.Errorf("%s: %d steps, %d when it was found", w.Name, steps, w.Steps)
		}
	}
}

// BenchmarkWorst decides the worst cases, as BenchmarkCliff does the cliffs.
func BenchmarkWorst(b *testing.B) {
	for _, w := range worstCases(b) {
		if w.Undecided || w.Fails {
			continue
		}
		b.Run("worst="+w.Name, func(b *testing.B) {
			nodes := []*corev1.Node{askedNode(w.Case)}
			want, _ := upstreamOnCliff(b, w.Case, nodes)
			for _, impl := range implementations[1:] {
				s := impl.mustOpen(b, w.Case)
				checkCliff(b, &Cliff{Fits: w.Fits}, s, w.Case, nodes, want)
				b.Run("impl="+impl.name, func(b *testing.B) { measure(b, &impl, s, NewPod, w.Case, nodes) })
			}
		})
	}
}

func worstCases(tb testing.TB) []Worst {
	tb.Helper()
	all, err := WorstCases()
	if err != nil {
		tb.Fatal(err)
	}
	return all
}
