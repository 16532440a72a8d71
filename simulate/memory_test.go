// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"os"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

var defaultMemory = usualMemory

// TestMain has all tests run with another memory than the usual one with DRAY_MEMORY=off, and with one that forgets all the
// time with DRAY_MEMORY=small.
func TestMain(m *testing.M) {
	switch memory := os.Getenv("DRAY_MEMORY"); memory {
	case "":
	case "off":
		usualMemory = MemoryOptions{Off: true}
	case "small":
		usualMemory = MemoryOptions{Questions: 2, Kinds: 2, Nodes: 2, States: 2, Answers: 1, Total: 2}
	default:
		fmt.Fprintf(os.Stderr, "DRAY_MEMORY is off, small or empty, not %s\n", memory)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// RunUsual has a test run with the usual memory: it is about what that saves, or about how far a budget leads with it.
func RunUsual(t *testing.T) {
	t.Helper()
	before := usualMemory
	usualMemory = defaultMemory
	t.Cleanup(func() { usualMemory = before })
}

// Answers beyond the bound for all nodes are computed again, with the same result.
func TestTotalMemory(t *testing.T) {
	RunUsual(t)
	const nodes, kinds, most = 30, 6, 40
	c, pods := large(nodes, kinds)
	for i := range c.Nodes { // no two nodes are alike
		c.Slices[i].Spec.Devices = c.Slices[i].Spec.Devices[:1+i%8]
		c.Slices[i].Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"size": {Value: *resource.NewQuantity(int64(i), resource.DecimalSI)}}
	}
	ask := func(memory MemoryOptions) (answers string, sizes onenode.Sizes) {
		state, err := Open(c, Options{Features: allocator.AllFeatures(), Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		shapes, err := state.Shapes(pods)
		if err != nil {
			t.Fatal(err)
		}
		m := state.Sim()
		for range 3 {
			for i, shape := range shapes {
				r, err := m.PlaceMany(t.Context(), shape, 7, Real(nil), []NodePolicy{FirstFit, Pack, Spread}[i%3])
				if err != nil {
					t.Fatal(err)
				}
				for p := range r.Placements() {
					answers += p.Node.Name() + " "
				}
				fit, err := m.State().FitsMany(t.Context(), shape, Real(nil))
				answers += fmt.Sprintln(fit, err)
			}
			if sizes = state.world.Sizes(); sizes.Total > most && memory.Total == most {
				t.Errorf("%d states and answers are remembered, of %d at most", sizes.Total, most)
			}
		}
		return answers, sizes
	}
	want, sizes := ask(MemoryOptions{})
	if sizes.Forgotten > 0 || sizes.Total < 2*most {
		t.Errorf("with the usual memory: %+v", sizes)
	}
	got, sizes := ask(MemoryOptions{Total: most})
	if sizes.Forgotten == 0 {
		t.Errorf("nothing was forgotten: %+v", sizes)
	}
	off, sizes := ask(MemoryOptions{Off: true})
	if sizes.Total > 0 {
		t.Errorf("with no memory: %+v", sizes)
	}
	if got != want || off != want {
		t.Errorf("little memory:\n%s\nnone:\n%s\nthe usual one:\n%s", got, off, want)
	}
}

// PlacesGangs has the pods of gangs placed one after the other in each domain, and asked about together, where counting
// them would do.
func PlacesGangs(s *State) *State {
	s.world.placesGangs = true
	return s
}
