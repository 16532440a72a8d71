package simulate_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// taint puts a taint on a device that a slice lists at the pool's generation.
func (g *game) taint() {
	if len(g.ref.slices) == 0 {
		return
	}
	at := g.rand.IntN(len(g.ref.slices))
	slice := g.ref.slices[at]
	if len(slice.Spec.Devices) == 0 {
		return
	}
	device := g.rand.IntN(len(slice.Spec.Devices))
	g.taints++
	taint := resourceapi.DeviceTaint{Key: fmt.Sprintf("taint-%d", g.taints%3), Effect: resourceapi.DeviceTaintEffectNoSchedule}
	id := pools.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[device].Name}
	for _, other := range g.ref.slices {
		for i := range other.Spec.Devices {
			if other != slice && other.Spec.Driver == id.Driver && other.Spec.Pool.Name == id.Pool && other.Spec.Devices[i].Name == id.Device {
				return // which of them is meant?
			}
		}
	}
	if err := g.sim.Taint(taint, slices.Values([]pools.DeviceID{id})); err != nil {
		return // of a node that the template made, or an old generation
	}
	g.seen["tainted"]++
	g.ref.taint(taint, at, device)
}

// drain removes a node, if its pods find another one.
func (g *game) drain() {
	if len(g.ref.nodes) < 2 {
		return
	}
	node := g.ref.nodes[g.rand.IntN(len(g.ref.nodes))].Name
	got, err := g.sim.Drain(g.Context(), simulate.Union(simulate.Real(g.ref.only), simulate.Added(g.template)), simulate.FirstFit, node)
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	before := g.ref.clone()
	pods := g.ref.remove(node)
	if got.All() {
		g.seen["drained"] += len(pods)
		g.compareDrained(got, pods)
		return
	}
	g.seen["kept"]++
	for _, pod := range pods {
		on, _, _, err := g.ref.place(g.Context(), pod, g.ref.claimsOf(pod, g.templates), nil)
		if err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		if on == "" {
			g.ref = before
			return
		}
	}
	g.Fatalf("seed %d: step by step, %s can be drained; simulated, %d pods have no place", g.seed, node, got.Unfit+got.Undecided)
}

func (g *game) compareDrained(got simulate.Result, pods []*corev1.Pod) {
	placements := slices.Collect(got.Placements())
	if len(placements) != len(pods) {
		g.Fatalf("seed %d: %d pods are placed of %d that were on the node", g.seed, len(placements), len(pods))
	}
	g.compare(got, pods, nil)
}
