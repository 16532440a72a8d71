package adversary

import (
	"math/rand/v2"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// A counter set that was read from a file may have no counters.
func TestSetCounterInEmptySet(t *testing.T) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Devices:        []resourceapi.Device{{Name: "gpu-0"}},
		SharedCounters: []resourceapi.CounterSet{{Name: "card-0"}},
	}}
	m := mutator{c: &alloctest.Case{Slices: []*resourceapi.ResourceSlice{slice}}, rand: rand.New(rand.NewPCG(1, 1))}
	m.setCounter()
	if n := len(slice.Spec.SharedCounters[0].Counters); n != 1 {
		t.Errorf("%d counters, expected one", n)
	}
}
