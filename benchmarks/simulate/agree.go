// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// agree compares the measured results with those of the peer.
func (b *bench) agree() error {
	if err := b.readTemplates(); err != nil {
		return err
	}
	if err := b.agreePlacing(); err != nil {
		return err
	}
	if err := b.agreeGrowing(); err != nil {
		return err
	}
	for _, agree := range []func() error{b.agreeGangs, b.agreePacking, b.agreeLeaving, b.agreeCharge} {
		if err := agree(); err != nil {
			return err
		}
	}
	return b.agreeDraining()
}

// consistent compares results that were computed for many nodes at once, or for changes, with those
// computed node by node.
func (b *bench) consistent() error {
	sim := b.state.Sim()
	for i := range 8 {
		b.placeOneMore(sim, i)
		state := sim.State()
		departures, err := state.Drainable(b, simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			return err
		}
		for _, d := range departures {
			sim.Fork()
			result, err := sim.Drain(b, simulate.Real(nil), simulate.FirstFit, d.Node.Name())
			sim.Revert()
			if err != nil {
				return err
			}
			if d.Possible != result.All() || d.Undecided != (result.Undecided > 0) {
				return fmt.Errorf("node %s: possible %t, undecided %t; drained, %d pods are placed, %d are not", d.Node.Name(), d.Possible, d.Undecided, result.Placed, result.Unfit+result.Undecided)
			}
		}
		for n, shape := range b.shapes {
			got, err := state.FitsMany(b, shape, simulate.Real(nil))
			if err != nil {
				return err
			}
			want, err := state.FitsMany(b, shape, simulate.Union(simulate.Real(nil), simulate.Nodes{}, simulate.Added(b.templates[0])))
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("shape %d after %d changes: %d fit, counting all nodes %d", n, i+1, got.Pods, want.Pods)
			}
		}
	}
	return nil
}

func nodesOf(r *simulate.Result) []string {
	var names []string
	for placement := range r.Placements() {
		names = append(names, placement.Node.Name())
	}
	return names
}

// agreePlacing places a pod of each shape on existing nodes.
func (b *bench) agreePlacing() error {
	u, sim := newUpstream(b.world), b.state.Sim()
	for i, pod := range b.world.shapes {
		want, err := u.place(b, pod, u.nodes)
		if err != nil {
			return err
		}
		got, err := sim.PlaceMany(b, b.shapes[i], 1, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			return err
		}
		if name := firstNode(&got); name != want {
			return fmt.Errorf("pod %s: upstream says node %q, Dray %q", pod.Name, want, name)
		}
	}
	return nil
}

// agreePacking places pods one by one, each on the fullest node.
func (b *bench) agreePacking() error {
	u, sim := newUpstream(b.world), b.state.Sim()
	for i := range 3 {
		want, err := u.pack(b, b.world.shapes[0])
		if err != nil {
			return err
		}
		got, err := sim.PlaceMany(b, b.shapes[0], 1, simulate.Real(nil), simulate.Pack)
		if err != nil {
			return err
		}
		if name := firstNode(&got); name != want {
			return fmt.Errorf("pod %d: on the fullest node that takes it: upstream says node %q, Dray %q", i, want, name)
		}
	}
	return nil
}

func firstNode(r *simulate.Result) string {
	for placement := range r.Placements() {
		return placement.Node.Name()
	}
	return ""
}

// agreeGrowing fills one new node of some templates with pods of all shapes.
func (b *bench) agreeGrowing() error {
	for t := range 5 {
		u, sim := newUpstream(b.world), b.state.Sim()
		u.claims = nil // other claims do not matter, since the new node is empty
		node := u.addNode(b.world.specs[t], 0)
		if err := sim.Add(b.templates[t], 1); err != nil {
			return err
		}
		for i, pod := range b.world.shapes {
			for range 3 {
				want, err := u.place(b, pod, []*corev1.Node{node})
				if err != nil {
					return err
				}
				got, err := sim.PlaceMany(b, b.shapes[i], 1, simulate.Added(b.templates[t]), simulate.FirstFit)
				if err != nil {
					return err
				}
				if (want != "") != (got.Placed == 1) {
					return fmt.Errorf("pod %s on template %d: upstream says node %q, Dray places %d", pod.Name, t, want, got.Placed)
				}
			}
		}
	}
	return nil
}

// agreeDraining drains three nodes, each separately.
func (b *bench) agreeDraining() error {
	for _, i := range []int{0, 1, 19} {
		name := b.nodeName(i)
		want, err := b.drainPeer(newUpstream(b.world), name)
		if err != nil {
			return err
		}
		result, err := b.state.Sim().Drain(b, simulate.Real(nil), simulate.FirstFit, name)
		if err != nil {
			return err
		}
		if got := nodesOf(&result); result.All() != !slices.Contains(want, "") || result.All() && !slices.Equal(got, want) {
			return fmt.Errorf("node %s: upstream places its pods on %v, Dray on %v", name, want, got)
		}
	}
	return nil
}

// drainPeer returns the new nodes of a node's pods, up to the first pod that cannot be placed.
func (b *bench) drainPeer(u *upstream, name string) ([]string, error) {
	var nodes []string
	for _, pod := range u.without(name) {
		node, err := u.place(b, pod, u.nodes)
		if err != nil {
			return nil, err
		}
		if nodes = append(nodes, node); node == "" {
			break
		}
	}
	return nodes, nil
}
