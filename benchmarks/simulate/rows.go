// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// bench has the cluster and the objects that all questions use.
type bench struct {
	context.Context //nolint:containedctx // the bench lives as long as one call of run
	world           *world
	state           *simulate.State
	shapes          []*simulate.Shape
	templates       []*simulate.Template
}

func newBench(ctx context.Context, w *world) (*bench, error) {
	b := &bench{Context: ctx, world: w}
	return b, b.open()
}

// open reads the cluster again, without any cached results.
func (b *bench) open() error {
	state, err := simulate.Open(b.world.cluster, b.world.options)
	if err != nil {
		return err
	}
	if faults := state.Faults(); len(faults) > 0 {
		return faults[0]
	}
	b.state, b.templates, b.shapes = state, nil, nil
	for _, pod := range b.world.shapes {
		shapes, err := state.Shapes([]*corev1.Pod{pod})
		if err != nil {
			return err
		}
		b.shapes = append(b.shapes, shapes...)
	}
	return nil
}

func (b *bench) readTemplates() error {
	for _, spec := range b.world.specs {
		t, err := b.state.Template(spec)
		if err != nil {
			return err
		}
		b.templates = append(b.templates, t)
	}
	return nil
}

// inUse returns the fraction of unpartitioned GPUs that are in use.
func (b *bench) inUse() float64 {
	sum := 0.0
	for _, node := range b.world.cluster.Nodes {
		handle, err := b.state.Node(node.Name)
		if err != nil {
			continue
		}
		sum += b.state.InUse(handle)
	}
	return 2 * sum / float64(len(b.world.cluster.Nodes)) // half of the devices are NICs, which are mostly free
}

// figures are the costs of one operation.
type figures struct {
	perOp time.Duration
	bytes int64
	// ratio replaces perOp in rows where only the ratio matters.
	ratio float64
}

// row is a question with its measurement.
type row struct {
	name, needed string
	measure      func() figures
	// peer asks the peer a part of the question. parts is how many such parts the question has.
	peer  func(*upstream) error
	parts float64
}

func (b *bench) peerTime(r row) (string, error) {
	u := newUpstream(b.world)
	start := cpuTime()
	err := r.peer(u)
	took := cpuTime() - start
	if r.parts == 1 {
		return show(took), err
	}
	return fmt.Sprintf("%s (1/%.0f measured)", show(time.Duration(float64(took)*r.parts)), r.parts), err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// scaleUp places 100 pods of each shape on each template.
func (b *bench) scaleUp() {
	for _, t := range b.templates {
		sim := b.state.Sim()
		for _, shape := range b.shapes {
			_, err := sim.PlaceMany(b, shape, 100, simulate.New(t, 0), simulate.FirstFit)
			must(err)
		}
	}
}

func (b *bench) rows() []row {
	return slices.Concat(b.growing(), b.placing(), b.together(), b.leaving(), b.buying(), b.charging(), b.counting(), b.opening())
}

func (b *bench) growing() []row {
	cold := func() figures {
		return per(func() { must(b.open()) }, func(int) {
			must(b.readTemplates())
			b.scaleUp()
		})
	}
	return []row{
		{name: "scale-up, 20 templates × 12 shapes × 100 pods, cold", needed: "≤ 12 ms", measure: cold, parts: 20 * 100 / 2, peer: func(u *upstream) error {
			node := u.addNode(b.world.specs[0], 0)
			for _, pod := range b.world.shapes {
				for range 2 {
					if _, err := u.place(b, pod, []*corev1.Node{node}); err != nil {
						return err
					}
				}
			}
			return nil
		}},
		{name: "the same, warm", needed: "≤ 0.5 ms", measure: func() figures { return per(nil, func(int) { b.scaleUp() }) }},
		{name: "hypothetical node", needed: "≤ 0.2 µs, ≤ 64 B", parts: 1, measure: func() figures {
			sim := b.state.Sim()
			return per(nil, func(int) { must(sim.Add(b.templates[0], 1)) })
		}, peer: func(u *upstream) error { u.addNode(b.world.specs[0], 0); return nil }},
	}
}

func (b *bench) placing() []row {
	return []row{
		{name: "place a pod of a known shape", needed: "≤ 0.5 µs", parts: 1, measure: func() figures {
			sim := b.state.Sim()
			sim.Fork()
			return per(nil, func(i int) {
				if i%256 == 255 {
					sim.Revert()
					sim.Fork()
				}
				_, err := sim.PlaceMany(b, b.shapes[0], 1, simulate.Real(nil), simulate.FirstFit)
				must(err)
			})
		}, peer: func(u *upstream) error { _, err := u.place(b, b.world.shapes[0], u.nodes); return err }},
		{name: "drain one node, and undo it", needed: "≤ 50 µs", parts: 1, measure: func() figures {
			return per(nil, func(i int) {
				_, err := b.state.Sim().Drain(b, simulate.Real(nil), simulate.FirstFit, b.nodeName(i))
				must(err)
			})
		}, peer: func(u *upstream) error { _, err := b.drainPeer(u, b.nodeName(0)); return err }},
		{name: "consolidation: which of all nodes could go", needed: "≤ 0.5 ms", measure: func() figures {
			sim := b.state.Sim()
			return per(nil, func(i int) {
				b.placeOneMore(sim, i)
				_, err := sim.State().Drainable(b, simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
				must(err)
			})
		}, parts: float64(len(b.world.cluster.Nodes)), peer: func(u *upstream) error { _, err := b.drainPeer(u, b.nodeName(0)); return err }},
		{name: "place a pod on the fullest node that takes it", parts: 1, measure: func() figures {
			sim := b.state.Sim()
			sim.Fork()
			return per(nil, func(i int) {
				if i%256 == 255 {
					sim.Revert()
					sim.Fork()
				}
				_, err := sim.PlaceMany(b, b.shapes[0], 1, simulate.Real(nil), simulate.Pack)
				must(err)
			})
		}, peer: func(u *upstream) error { _, err := u.pack(b, b.world.shapes[0]); return err }},
	}
}

// placeOneMore adds a pod to a Sim. From time to time it removes all added pods.
func (b *bench) placeOneMore(sim *simulate.Sim, i int) {
	if i%64 == 0 {
		sim.Revert()
		sim.Fork()
	}
	_, err := sim.PlaceMany(b, b.shapes[i%2], 1, simulate.Real(nil), simulate.FirstFit)
	must(err)
}

func (b *bench) nodeName(i int) string {
	return b.world.cluster.Nodes[i%len(b.world.cluster.Nodes)].Name
}

func (b *bench) counting() []row {
	return []row{
		{name: fmt.Sprintf("FitsMany of 12 shapes, %d nodes, cold", len(b.world.cluster.Nodes)), needed: "", measure: func() figures {
			return per(func() { must(b.open()) }, func(int) { b.countAll(b.state) })
		}},
		{name: "FitsMany, of a set that was not counted before", needed: "≤ 0.25 ms", measure: func() figures {
			b.countAll(b.state)
			return per(nil, func(i int) {
				_, err := b.state.FitsMany(b, b.shapes[i%len(b.shapes)], notCounted())
				must(err)
			})
		}},
		{name: "the same, 5,000 nodes", needed: "≤ 1 ms", measure: b.large},
		{name: "a change, and FitsMany after it", needed: "≤ 20 µs", measure: func() figures {
			b.countAll(b.state)
			sim := b.state.Sim()
			return per(nil, func(i int) {
				b.placeOneMore(sim, i)
				_, err := sim.State().FitsMany(b, b.shapes[i%len(b.shapes)], simulate.Real(nil))
				must(err)
			})
		}},
		{name: "10% of GPUs tainted for the first time, all shapes counted again", needed: "≤ 10 ms", measure: func() figures {
			broken := b.everyTenthGPU()
			counted := func() {
				must(b.open())
				b.countAll(b.state)
			}
			return per(counted, func(int) {
				sim := b.state.Sim()
				must(sim.Taint(resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}, slices.Values(broken)))
				b.countAll(sim.State())
			})
		}},
		{name: "FitsMany with unrelated zonal and allNodes pools, in use", needed: "≤ 1.5×", measure: b.unrelated},
		{name: "Update: one pod more", parts: 1, measure: b.update, peer: b.readAnew},
		{name: "With: one pod more", parts: 1, measure: b.with, peer: b.readAnew},
		{name: "FitsMany, each of 1,000 shapes in turn", needed: "no step > 2×", measure: b.manyShapes},
	}
}

// notCounted returns all existing nodes, as a set for which no counts are cached.
func notCounted() simulate.Nodes { return simulate.Union(simulate.Real(nil)) }

// large counts pods in a cluster with five times the nodes, and as many pods.
func (b *bench) large() figures {
	w, err := newWorld(b, 5*len(b.world.cluster.Nodes), len(b.world.cluster.Pods))
	must(err)
	large := &bench{Context: b.Context, world: w}
	must(large.open())
	large.countAll(large.state)
	return per(nil, func(i int) {
		_, err := large.state.FitsMany(b, large.shapes[i%len(large.shapes)], notCounted())
		must(err)
	})
}

// readAnew does what the peer does before each question, to find out what is in use.
func (b *bench) readAnew(u *upstream) error {
	_, err := structured.NewAllocator(b, u.features, u.used(), u, u.slices, u.programs)
	return err
}

// oneMore returns the cluster with one more pod.
func (b *bench) oneMore() simulate.Cluster {
	result, err := b.state.Sim().Place(b, newPod("one-more", 0), simulate.Real(nil), simulate.FirstFit)
	must(err)
	with := *b.world
	for placement := range result.Placements() {
		claims, err := placement.Claims(b)
		must(err)
		with.cluster.Pods, with.cluster.Claims = slices.Clip(with.cluster.Pods), slices.Clip(with.cluster.Claims)
		with.run(newPod("one-more", 0), placement.Node.Name(), claims)
	}
	return with.cluster
}

// with adds a pod to the cluster and removes it again, alternately.
func (b *bench) with() figures {
	before, after := b.world.cluster, b.oneMore()
	more := simulate.Cluster{Pods: after.Pods[len(before.Pods):], Claims: after.Claims[len(before.Claims):]}
	changes := [2]simulate.Changes{{Set: more}, {Gone: more}}
	state, err := b.state.With(simulate.Changes{}) // lazily computed data is not part of the measurement
	must(err)
	return per(nil, func(i int) {
		state, err = state.With(changes[i%2])
		must(err)
	})
}

// update adds a pod to the cluster and removes it again, alternately.
func (b *bench) update() figures {
	clusters := [2]simulate.Cluster{b.oneMore(), b.world.cluster}
	state, err := b.state, error(nil)
	return per(nil, func(i int) {
		state, err = state.Update(clusters[i%2])
		must(err)
	})
}

// countAll counts how many pods of each shape fit.
func (b *bench) countAll(state *simulate.State) {
	for _, shape := range b.shapes {
		_, err := state.FitsMany(b, shape, simulate.Real(nil))
		must(err)
	}
}

func (b *bench) everyTenthGPU() []pools.DeviceID {
	var list []pools.DeviceID
	n := 0
	for _, slice := range b.world.cluster.Slices {
		for i := range slice.Spec.Devices {
			if slice.Spec.Driver != gpuDriver {
				continue
			}
			if n++; n%10 == 0 {
				list = append(list, pools.DeviceID{Driver: gpuDriver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name})
			}
		}
	}
	return list
}

// unrelated compares the cluster with one that has additional pools which no shape can use, both
// without cached results. They are measured alternately, so that other load affects both equally.
func (b *bench) unrelated() figures {
	without, with := &bench{Context: b.Context, world: b.world}, &bench{Context: b.Context, world: b.world.withUnrelated()}
	for _, side := range []*bench{without, with} {
		must(side.open())
		side.countAll(side.state)
	}
	var took figures
	best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	for range few {
		for i, side := range []*bench{without, with} {
			took = per(nil, func(n int) {
				_, err := side.state.FitsMany(b, side.shapes[n%len(side.shapes)], notCounted())
				must(err)
			})
			best[i] = min(best[i], took.perOp)
		}
	}
	took.ratio = float64(best[1]) / float64(best[0])
	return took
}

// withUnrelated returns the world with pools that no shape can use, for all nodes and for zones.
// One of their devices is in use.
func (w *world) withUnrelated() *world {
	with := *w
	var other []*resourceapi.ResourceSlice
	for i := range 3 {
		slice := newSlice("fabric", "fabric.example.com", fmt.Sprint(i), []resourceapi.Device{newDevice("port-0", "", nil, "1"), newDevice("port-1", "", nil, "1")})
		slice.Name, slice.Spec.Pool.Name, slice.Spec.NodeName = fmt.Sprintf("fabric-%d", i), fmt.Sprintf("fabric-%d", i), nil
		if i == 0 {
			slice.Spec.AllNodes = ptr.To(true)
		} else {
			slice.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("zone-%d", i)}},
			}}}}
		}
		other = append(other, slice)
	}
	with.cluster.Slices = slices.Concat(w.cluster.Slices, other)
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = "default", "fabric"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "port", Driver: "fabric.example.com", Pool: "fabric-0", Device: "port-0"},
	}}}
	with.cluster.Claims = append(slices.Clip(w.cluster.Claims), claim)
	return &with
}

// manyShapes makes shapes that differ in their memory requests.
func (b *bench) manyShapes() figures {
	var shapes []*simulate.Shape
	with := *b.world
	for i := range 1000 {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", fmt.Sprintf("shape-%02d", 100+i)
		template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{request("gpu", "gpu", 1,
			fmt.Sprintf(`device.capacity["gpu.example.com"].memory.compareTo(quantity("%dMi")) >= 0`, i))}
		with.cluster.Templates = append(slices.Clip(with.cluster.Templates), template)
	}
	many := &bench{Context: b.Context, world: &with}
	must(many.open())
	for i := range 1000 {
		found, err := many.state.Shapes([]*corev1.Pod{newPod("many", 100+i)})
		must(err)
		shapes = append(shapes, found...)
	}
	for _, shape := range shapes {
		_, err := many.state.FitsMany(b, shape, simulate.Real(nil))
		must(err)
	}
	return per(nil, func(i int) {
		_, err := many.state.FitsMany(b, shapes[i%len(shapes)], notCounted())
		must(err)
	})
}
