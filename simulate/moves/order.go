// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// order searches for an order in which the pods of a set can move.
type order struct {
	*finder
	sim    *simulate.Sim
	nodes  []simulate.Node // to which pods go, in the order in which they are tried
	room   int
	cost   float64
	steps  []Step
	places []simulate.Placement
	// left is the remaining number of attempts to put a pod on a node. doubts is set if that ran out, or if a result was undecided.
	left   int
	doubts bool
	// end reports whether the goal is reached after all pods of the set have moved. If not, it changes nothing.
	end func(context.Context) (bool, error)
	set []movable
	// failed has the positions from which there is no way. It is nil if the devices of a pod depend on more than a position says: other nodes use
	// its claims, or reach its devices.
	failed  map[string]bool
	devices map[simulate.RoomDevices]uint64 // numbers for keys of positions
}

// order starts to look for an order for a set.
func (f *finder) order(set []movable) *order {
	o := &order{finder: f, sim: f.state.Sim(), left: f.Attempts, set: set}
	for i := range set {
		o.cost += set[i].cost
	}
	o.candidates(set)
	return o
}

// candidates puts the nodes on which no pod of the set is first: what the wanted pods need is on the others.
func (o *order) candidates(set []movable) {
	var last []simulate.Node
	for _, node := range o.finder.nodes {
		if slices.ContainsFunc(set, func(m movable) bool { return m.from == node }) {
			last = append(last, node)
			continue
		}
		o.nodes = append(o.nodes, node)
	}
	o.nodes = append(o.nodes, last...)
}

// all searches from the start, where no pod has moved.
func (o *order) all(ctx context.Context) (bool, error) {
	o.failed = nil
	independent, err := o.independent(ctx)
	if err != nil {
		return false, err
	}
	if independent {
		o.failed, o.devices = make(map[string]bool), make(map[simulate.RoomDevices]uint64)
	}
	return o.from(ctx, o.set, nil)
}

// independent reports whether other nodes do not affect the devices that the pods of the set get, see simulate.ErrNotAlone.
func (o *order) independent(ctx context.Context) (bool, error) {
	for i := range o.set {
		pod := &o.set[i]
		if _, sure, err := take(ctx, o.sim.State(), o.kinds[pod.kind], pod.from, 1); err != nil || !sure {
			return false, err
		}
	}
	return true, nil
}

// from continues the search where the pods in old have not moved yet, and those in out are on no node. If it finds an order,
// steps and places have it. Else nothing changes.
func (o *order) from(ctx context.Context, old, out []movable) (bool, error) {
	var key string
	if o.failed != nil && len(o.steps) > 1 {
		var err error
		if key, err = o.position(old, out); err != nil || o.failed[key] {
			return false, err
		}
	}
	done, err := o.onward(ctx, old, out)
	if key != "" && !done && err == nil {
		o.failed[key] = true
	}
	return done, err
}

// position is a key for all that decides whether there is a way: which pods have moved and where they are, which are on no node, and which
// devices are left. Pods that have moved stay, so it does not matter which of these devices each has.
func (o *order) position(old, out []movable) (string, error) {
	state := o.sim.State()
	var key []byte
	touch := func(node simulate.Node) error {
		room, err := state.Room(node)
		if err != nil {
			return err
		}
		number, known := o.devices[room.Devices()]
		if !known {
			number = uint64(len(o.devices))
			o.devices[room.Devices()] = number
		}
		key = binary.AppendUvarint(key, number)
		return nil
	}
	for i := range o.set {
		pod := &o.set[i]
		if isOut(old, pod) {
			key = append(key, 'o')
			continue
		}
		if isOut(out, pod) {
			key = append(key, 'n')
		} else {
			at := slices.IndexFunc(o.steps, func(s Step) bool { return s.Pod == pod.Pod && !s.Leaves() })
			to := o.steps[at].To
			key = binary.AppendUvarint(append(key, 'm'), uint64(slices.Index(o.nodes, to)))
			if err := touch(to); err != nil {
				return "", err
			}
		}
		if err := touch(pod.from); err != nil {
			return "", err
		}
	}
	return string(key), nil
}

// onward is from, without what is known of positions.
func (o *order) onward(ctx context.Context, old, out []movable) (bool, error) {
	if len(old)+len(out) == 0 {
		return o.end(ctx)
	}
	for i := range out {
		if done, err := o.moves(ctx, &out[i], true, old, without(out, i)); done || err != nil {
			return done, err
		}
	}
	for i := range old {
		if o.exceeds(&old[i], out) {
			continue
		}
		o.sim.Fork()
		if err := o.sim.Evict(old[i].Pod); err != nil {
			return false, err
		}
		done, err := o.moves(ctx, &old[i], false, without(old, i), out)
		if err == nil && !done && len(out) < o.room {
			o.steps = append(o.steps, Step{Pod: old[i].Pod, From: old[i].from})
			if done, err = o.from(ctx, without(old, i), append(slices.Clip(out), old[i])); !done {
				o.steps = o.steps[:len(o.steps)-1]
			}
		}
		if done || err != nil {
			return done, err
		}
		o.sim.Revert()
	}
	return false, nil
}

// exceeds reports whether a limit forbids to evict a pod while those in out are on no node.
func (o *order) exceeds(pod *movable, out []movable) bool {
	for _, limit := range pod.limits {
		count := 1
		for i := range out {
			if slices.Contains(out[i].limits, limit) {
				count++
			}
		}
		if count > o.Limits[limit].Out {
			return true
		}
	}
	return false
}

// moves tries all nodes for an evicted pod, and continues the search from each.
func (o *order) moves(ctx context.Context, pod *movable, returns bool, old, out []movable) (bool, error) {
	for _, node := range o.nodes {
		placement, err := o.put(ctx, pod.Pod, node)
		if err != nil {
			return false, err
		}
		if placement == nil {
			continue
		}
		step := Step{Pod: pod.Pod, From: pod.from, To: node, placement: placement}
		if returns {
			step.From = simulate.Node{}
		}
		o.steps = append(o.steps, step)
		if done, err := o.from(ctx, old, out); done || err != nil {
			return done, err
		}
		o.steps = o.steps[:len(o.steps)-1]
		o.sim.Revert()
	}
	return false, nil
}

// readClaims adds the claims of the pods to the steps.
func (o *order) readClaims(ctx context.Context) (err error) {
	for i := range o.steps {
		if step := &o.steps[i]; step.placement != nil {
			if step.Claims, err = step.placement.Claims(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// put puts a pod on a node, after a Fork. It returns nil if it does not fit there; then there is no Fork.
func (o *order) put(ctx context.Context, pod *corev1.Pod, node simulate.Node) (*simulate.Placement, error) {
	if o.left == 0 {
		o.doubts = true
		return nil, nil
	}
	o.left--
	o.sim.Fork()
	result, err := o.finder.put(ctx, o.sim, pod, node)
	if err != nil {
		return nil, err
	}
	for placement := range result.Placements() {
		return &placement, nil
	}
	o.doubts = o.doubts || result.Undecided > 0
	o.sim.Revert()
	return nil, nil
}

// placeWanted places the wanted pods.
func (o *order) placeWanted(ctx context.Context) (bool, error) {
	if o.Gang || len(o.Topologies) > 0 {
		return o.together(ctx)
	}
	return o.wanted(ctx, o.Wanted)
}

// wanted places the wanted pods by trying all nodes for each.
func (o *order) wanted(ctx context.Context, pods []*corev1.Pod) (bool, error) {
	if len(pods) == 0 {
		return true, nil
	}
	for _, node := range slices.Backward(o.nodes) {
		placement, err := o.put(ctx, pods[0], node)
		if err != nil {
			return false, err
		}
		if placement == nil {
			continue
		}
		o.places = append(o.places, *placement)
		if done, err := o.wanted(ctx, pods[1:]); done || err != nil {
			return done, err
		}
		o.places = o.places[:len(o.places)-1]
		o.sim.Revert()
	}
	return false, nil
}

// together places the wanted pods as a gang with the required topologies.
func (o *order) together(ctx context.Context) (bool, error) {
	if o.left == 0 {
		o.doubts = true
		return false, nil
	}
	o.left--
	result, err := o.sim.Gang(ctx, o.demands, o.Topologies, o.on, simulate.FirstFit)
	if err != nil || !result.All() {
		o.doubts = o.doubts || result.Undecided > 0 || result.NoProof
		return false, err
	}
	o.places = slices.Collect(result.Placements())
	return true, nil
}

func without(list []movable, i int) []movable {
	return slices.Concat(list[:i], list[i+1:])
}
