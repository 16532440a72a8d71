// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// move is a pod that goes to a node.
type move struct {
	*movable
	to simulate.Node
}

// follow searches for an order in which pods move to given nodes, and keeps the plan if it is better. A pod moves as soon as its node has room.
// If no pod can move, the first one is evicted, and placed later. The wanted pods are tried on the nodes in places first.
func (f *finder) follow(ctx context.Context, list []move, places map[*corev1.Pod]simulate.Node) error {
	set := make([]movable, len(list))
	for i := range list {
		set[i] = *list[i].movable
	}
	o := f.order(set)
	var out []movable
	for len(list) > 0 {
		at, err := o.anyMove(ctx, list, out)
		if err != nil {
			return err
		}
		if at >= 0 {
			out = slices.DeleteFunc(out, func(m movable) bool { return m.Pod == list[at].Pod })
			list = slices.Delete(list, at, at+1)
			continue
		}
		at = slices.IndexFunc(list, func(m move) bool { return !isOut(out, m.movable) && !o.exceeds(m.movable, out) })
		if at < 0 {
			return nil
		}
		if err := o.sim.Evict(list[at].Pod); err != nil {
			return err
		}
		out = append(out, *list[at].movable)
		o.room = max(o.room, len(out))
		o.steps = append(o.steps, Step{Pod: list[at].Pod, From: list[at].from})
	}
	done, err := o.wantedAt(ctx, places)
	if err != nil || !done {
		return err
	}
	return f.keep(ctx, o, set)
}

func isOut(out []movable, pod *movable) bool {
	return slices.ContainsFunc(out, func(m movable) bool { return m.Pod == pod.Pod })
}

// anyMove makes the first possible move, and returns its index, or -1. Evicted pods come before others.
func (o *order) anyMove(ctx context.Context, list []move, out []movable) (int, error) {
	for _, back := range []bool{true, false} {
		for i := range list {
			if m := &list[i]; isOut(out, m.movable) == back && (back || !o.exceeds(m.movable, out)) {
				if done, err := o.move(ctx, m, back); done || err != nil {
					return i, err
				}
			}
		}
	}
	return -1, nil
}

// move puts a pod on its node. If it does not fit there, nothing changes.
func (o *order) move(ctx context.Context, m *move, back bool) (done bool, err error) {
	o.sim.Fork()
	step := Step{Pod: m.Pod, To: m.to}
	if !back {
		step.From = m.from
		if err := o.sim.Evict(m.Pod); err != nil {
			return false, err
		}
	}
	if step.placement, err = o.put(ctx, m.Pod, m.to); err != nil {
		return false, err
	}
	if step.placement == nil {
		o.sim.Revert()
		return false, nil
	}
	o.sim.Commit() // the one of put
	o.sim.Commit()
	o.steps = append(o.steps, step)
	return true, nil
}

// wantedAt places the wanted pods, on given nodes if that is possible.
func (o *order) wantedAt(ctx context.Context, places map[*corev1.Pod]simulate.Node) (bool, error) {
	if o.Gang || len(o.Topologies) > 0 {
		return o.together(ctx)
	}
	o.sim.Fork()
	for _, pod := range o.Wanted {
		placement, err := o.put(ctx, pod, places[pod])
		if err != nil {
			return false, err
		}
		if placement == nil {
			break
		}
		o.sim.Commit()
		o.places = append(o.places, *placement)
	}
	if len(o.places) == len(o.Wanted) {
		o.sim.Commit()
		return true, nil
	}
	o.sim.Revert()
	o.places = nil
	return o.wanted(ctx, o.Wanted)
}
