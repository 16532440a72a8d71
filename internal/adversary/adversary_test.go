package adversary_test

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/dray-project/dray/internal/adversary"
	"github.com/dray-project/dray/internal/differential"
	"github.com/dray-project/dray/internal/peer"
)

func climb(t *testing.T, folder string, rounds int) *adversary.Worst {
	t.Helper()
	meter := &peer.Meter{Budget: 2000}
	worst, err := adversary.Open(t.Context(), folder, meter)
	if err != nil {
		t.Fatal(err)
	}
	run := adversary.Climb{Seed: 7, Rounds: rounds, Mutations: 60, Meter: meter, Worst: worst}
	if err := run.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return worst
}

// cases are what was found without how long it took.
func cases(w *adversary.Worst) []adversary.Found {
	found := w.All()
	for i := range found {
		found[i].Time = 0
	}
	return found
}

func TestClimbRepeatsAndResumes(t *testing.T) {
	folder := t.TempDir()
	first := climb(t, folder, 4)
	if !reflect.DeepEqual(cases(first), cases(climb(t, t.TempDir(), 4))) {
		t.Error("two runs from one seed differ")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 || len(files) != len(first.All()) {
		t.Errorf("%d cases in %d files (%v)", len(first.All()), len(files), err)
	}
	resumed := climb(t, folder, 0)
	if len(resumed.All()) != len(files) || resumed.All()[0].Steps != first.All()[0].Steps {
		t.Errorf("read back: %v", resumed.All())
	}
}

func TestKindsAreKeptApart(t *testing.T) {
	kinds := make(map[string]bool)
	last := int64(math.MaxInt64)
	for _, f := range climb(t, t.TempDir(), 6).All() {
		if kind := adversary.Kind(f.Case); kinds[kind] {
			t.Errorf("two cases of kind %s", kind)
		} else {
			kinds[kind] = true
		}
		if f.Steps > last {
			t.Error("not in the order of steps")
		}
		last = f.Steps
	}
}

// What mutations lead to are still questions on which Dray and upstream agree.
func TestMutatedCasesAreSound(t *testing.T) {
	both := differential.Comparer{Ours: peer.Dray(), Peer: peer.Upstream(), OurLimit: time.Minute, PeerLimit: time.Second}
	for _, f := range climb(t, t.TempDir(), 8).All() {
		if v := both.Compare(t.Context(), f.Case); v.Disagreement != "" && !f.Undecided {
			t.Errorf("%s: %s", f.Case.Name, v.Disagreement)
		}
	}
}
