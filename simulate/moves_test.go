// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// step makes one of the moves.
func (g *game) step() {
	switch n := g.rand.IntN(36); {
	case n < 8:
		g.place(1)
	case n < 11:
		g.place(2 + g.rand.IntN(4))
	case n < 13:
		g.fits()
	case n < 15:
		g.sim.Fork()
		g.forks = append(g.forks, g.ref.clone())
	case n < 16:
		g.back()
	case n < 18:
		g.taint()
	case n < 20:
		g.drain()
	case n < 23:
		g.expect()
	case n < 26:
		g.evict()
	case n < 29:
		g.put()
	case n < 32:
		g.addNode()
	case n < 34:
		g.update()
	default:
		g.split()
	}
}

func (g *game) back() {
	last := len(g.forks) - 1
	if last < 0 {
		return
	}
	if g.rand.IntN(2) == 0 {
		g.seen["committed"]++
		g.sim.Commit()
	} else {
		g.seen["reverted"]++
		g.sim.Revert()
		g.ref = g.forks[last]
	}
	g.forks = g.forks[:last]
}

// split goes on with two Sims at a time, and then with one that has what both did. If they do not merge, it goes on with
// the first.
func (g *game) split() {
	g.state, g.forks = g.sim.State(), nil
	a, b := g.fork(0), g.fork(1)
	for range 1 + g.rand.IntN(3) {
		a.move()
		b.move()
	}
	a.merge(b, g.ref)
	g.sim, g.ref, g.pods, g.taints = a.sim, a.ref, max(a.pods, b.pods), max(a.taints, b.taints)
}

// set is real nodes, then nodes of the template, at times new ones, too.
func (g *game) set() (simulate.Nodes, func(int) (*corev1.Node, []*resourceapi.ResourceSlice)) {
	if g.rand.IntN(2) == 0 {
		return simulate.Union(simulate.Real(g.ref.only), simulate.Added(g.template)), nil
	}
	return simulate.Union(simulate.Real(g.ref.only), simulate.New(g.template, 1)), g.template.Nodes
}

func (g *game) newPods(n int) []*corev1.Pod {
	kind := g.kinds[g.rand.IntN(len(g.kinds))]
	var pods []*corev1.Pod
	for range n {
		pod := kind.DeepCopy()
		g.pods++
		pod.Name = fmt.Sprintf("pod-%d", g.pods)
		pods = append(pods, pod)
	}
	return pods
}

// place puts equal pods.
func (g *game) place(n int) {
	pods := g.newPods(n)
	of := g.state
	if g.before != nil && g.rand.IntN(2) == 0 {
		of = g.before
	}
	shapes, err := of.Shapes(pods)
	if err != nil || len(shapes) != 1 {
		g.Fatalf("seed %d: %d shapes, %v", g.seed, len(shapes), err)
	}
	set, fresh := g.set()
	got, err := g.twice(func(ctx context.Context) (simulate.Result, error) {
		return g.sim.PlaceMany(ctx, shapes[0], n, set, simulate.FirstFit)
	})
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	g.compare(got, pods, fresh)
}

// ending returns a context that ends after some looks at it, if it does before the call has ended.
func (g *game) ending() context.Context {
	g.calls++
	return ending.After(g.Context(), int64(g.calls*5%17))
}

// twice makes every third call with a context that may end, first. If that is so, nothing has changed. Else it is reverted.
func (g *game) twice(call func(context.Context) (simulate.Result, error)) (simulate.Result, error) {
	if ctx := g.ending(); g.calls%3 == 0 {
		g.sim.Fork()
		switch _, err := call(ctx); {
		case err == nil:
			g.sim.Revert()
		case errors.Is(err, context.Canceled):
			g.sim.Commit()
			g.seen["ended early"]++
		default:
			g.Fatalf("seed %d: %v", g.seed, err)
		}
	}
	return call(g.Context())
}

// fits counts without placing.
func (g *game) fits() {
	pods := g.newPods(1)
	if len(pods[0].Spec.ResourceClaims) == 0 {
		return // no end
	}
	shapes, err := g.state.Shapes(pods)
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	set, _ := simulate.Union(simulate.Real(g.ref.only), simulate.Added(g.template)), 0
	_, ended := g.sim.State().FitsMany(g.ending(), shapes[0], set)
	fit, err := g.sim.State().FitsMany(g.Context(), shapes[0], set)
	if err != nil || ended != nil && !errors.Is(ended, context.Canceled) {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	const most = 40
	ref := g.ref.clone()
	placed := 0
	for ; placed < most; placed++ {
		pod := pods[0].DeepCopy()
		pod.Name = fmt.Sprintf("more-%d", placed)
		node, _, _, err := ref.place(g.Context(), pod, ref.claimsOf(pod, g.templates), nil)
		if err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		if node == "" {
			break
		}
	}
	if placed != min(fit.Pods, most) {
		g.Fatalf("seed %d: %d pods fit step by step, %d are simulated (%d nodes undecided)", g.seed, placed, fit.Pods, fit.Undecided)
	}
	g.seen["fits"] += placed
}

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
	got, err := g.twice(func(ctx context.Context) (simulate.Result, error) {
		return g.sim.Drain(ctx, simulate.Union(simulate.Real(g.ref.only), simulate.Added(g.template)), simulate.FirstFit, node)
	})
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	before := g.ref.clone()
	object, own := g.ref.nodes[slices.IndexFunc(g.ref.nodes, func(n *corev1.Node) bool { return n.Name == node })], g.ref.own(node)
	pods := g.ref.remove(node)
	if got.All() {
		g.left = append(g.left, leftNode{object, own})
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
