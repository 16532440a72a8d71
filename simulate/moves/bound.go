// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate"
)

// bound is how many more targets can be free than before at most: those that pods which stay do not keep in use. Of nodes, some
// have to keep the pods.
func (e *freeing) bound(ctx context.Context) (int, error) {
	most := len(e.targets)
	if e.goal != Nodes || most == 0 {
		return most, nil
	}
	kinds, err := e.kindsOf(ctx)
	if err != nil {
		return 0, err
	}
	for _, demand := range demands(kinds) {
		kept, err := e.keptFor(ctx, demand)
		if err != nil {
			return 0, err
		}
		most = min(most, len(e.nodes)-kept-len(e.freeBefore))
	}
	return max(0, most), nil
}

// kind is pods that may go and ask for the same: no devices, or a number of devices in one request without anything else.
type kind struct {
	number int // in finder.kinds
	pods   []*corev1.Pod
	units  int64  // devices of a pod; 1 if it has none
	none   bool   // no devices
	ask    string // what they ask for, but for the number of devices and the resources
	needs  corev1.ResourceList
}

// kindsOf lists the kinds of pods of which it can be told how many a node takes.
func (f *finder) kindsOf(ctx context.Context) ([]kind, error) {
	from := make(map[*corev1.Pod]simulate.Node)
	for i := range f.pods {
		from[f.pods[i].Pod] = f.pods[i].from
	}
	var list []kind
	for number, shape := range f.kinds {
		pod := shape.Pods[0]
		node, runs := from[pod]
		var victims []*corev1.Pod
		if runs {
			victims = []*corev1.Pod{pod}
		} else {
			sets, err := f.state.Victims(ctx, shape, f.on, f.costOf, 1)
			if err != nil {
				return nil, err
			}
			if len(sets) == 0 {
				continue
			}
			node, victims = sets[0].Node, sets[0].Pods
		}
		claims, found, err := f.claimsOf(ctx, pod, node, victims)
		if err != nil {
			return nil, err
		}
		if ask, units, simple := plainAsk(pod, claims); found && simple {
			list = append(list, kind{number: number, pods: shape.Pods, units: units, none: len(claims) == 0, ask: ask, needs: needs(pod)})
		}
	}
	return list, nil
}

// claimsOf are the claims of a pod on a node, as if it came there now after others left. It finds none if it would not.
func (f *finder) claimsOf(ctx context.Context, pod *corev1.Pod, node simulate.Node, victims []*corev1.Pod) (claims []*resourceapi.ResourceClaim, found bool, err error) {
	f.scratch.Fork()
	defer f.scratch.Revert()
	if err := f.scratch.Evict(victims...); err != nil {
		return nil, false, err
	}
	result, err := f.scratch.Put(ctx, pod, node)
	if err != nil {
		return nil, false, err
	}
	for placement := range result.Placements() {
		claims, err = placement.Claims(ctx)
		return claims, true, err
	}
	return nil, false, nil
}

// needs is what a pod needs of CPU and the like.
func needs(pod *corev1.Pod) corev1.ResourceList {
	list := nodefit.Needs(pod)
	delete(list, corev1.ResourcePods)
	return list
}

// plainAsk is what a pod asks for of devices, if it is for a number of devices that nothing ties together.
func plainAsk(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) (ask string, units int64, simple bool) {
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
			return "", 0, false // others may use the claim, too
		}
	}
	units = 1
	var request *resourceapi.ExactDeviceRequest
	if len(claims) > 0 {
		spec := &claims[0].Spec.Devices
		if len(claims) > 1 || claims[0].Annotations[extension.Annotation] != "" || len(spec.Requests) != 1 || len(spec.Constraints) > 0 || spec.Requests[0].Exactly == nil {
			return "", 0, false
		}
		request = spec.Requests[0].Exactly.DeepCopy()
		if request.AllocationMode != resourceapi.DeviceAllocationModeExactCount || request.Capacity != nil || request.AdminAccess != nil {
			return "", 0, false
		}
		units, request.Count = request.Count, 0
	}
	text, err := json.Marshal([]any{request, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations})
	return string(text), units, err == nil
}

// demand is kinds of pods that ask for the same, but for the number of devices. The first asks for least.
type demand []kind

// demands groups kinds that differ in the number of devices only. A kind joins a group if, for each device, it needs at least as much
// of all other resources as the first kind of the group. So a node with room for a pod of 4 devices has room for 4 pods of one device.
func demands(kinds []kind) []demand {
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(a.units, b.units) })
	var list []demand
	for _, k := range kinds {
		at := slices.IndexFunc(list, func(d demand) bool { return d[0].ask == k.ask && d[0].scales(&k) })
		if at < 0 {
			list = append(list, demand{k})
			continue
		}
		list[at] = append(list[at], k)
	}
	return list
}

// scales reports whether a larger kind needs as much of all resources for each device.
func (k *kind) scales(larger *kind) bool {
	for name, least := range k.needs {
		has := larger.needs[name]
		if has.AsApproximateFloat64()*float64(k.units) < least.AsApproximateFloat64()*float64(larger.units)*(1-1e-9) {
			return false
		}
	}
	return true
}

// keptFor is how many nodes keep pods at least: those that cannot be free, and as many of the others as the pods of a demand
// need besides, the roomiest first.
func (e *freeing) keptFor(ctx context.Context, d demand) (int, error) {
	total, slack := int64(0), int64(0)
	for _, k := range d {
		total += int64(len(k.pods)) * k.units
		if k.units%d[0].units != 0 {
			slack = d[0].units - 1
		}
	}
	e.scratch.Fork()
	defer e.scratch.Revert()
	for i := range e.pods {
		if err := e.scratch.Evict(e.pods[i].Pod); err != nil {
			return 0, err
		}
	}
	all := e.scratch.State()
	kept := 0
	var rooms []int64
	for _, node := range e.nodes {
		room, err := e.room(ctx, all, node, &d[0], total)
		if err != nil {
			return 0, err
		}
		if room > 0 {
			room += slack
		}
		if e.empty(all, node) {
			rooms = append(rooms, room)
			continue
		}
		kept++
		total -= room
	}
	slices.SortFunc(rooms, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, room := range rooms {
		if total <= 0 || room == 0 {
			break
		}
		kept++
		total -= room
	}
	return kept, nil
}

// room is how many devices pods of a kind get on a node without the pods that may go, up to a number. It is that number where
// it cannot be told.
func (e *freeing) room(ctx context.Context, all *simulate.State, node simulate.Node, k *kind, most int64) (int64, error) {
	free := 0
	for _, use := range all.Devices(node) {
		if use.Free {
			free++
		}
	}
	e.scratch.Fork()
	defer e.scratch.Revert()
	pods := int64(0)
	for ; pods*k.units < most; pods++ {
		result, err := e.scratch.Put(ctx, k.pods[0], node)
		if err != nil {
			return 0, err
		}
		if !result.All() {
			if result.Undecided > 0 {
				return most, nil
			}
			break
		}
	}
	left := 0
	after := e.scratch.State()
	for _, use := range after.Devices(node) {
		if use.Free {
			left++
		}
	}
	// Where a device has parts, the first pods may get more than others would leave to them.
	if !k.none && int64(free-left) != pods*k.units || fullOfPods(after, node) {
		return most, nil
	}
	return min(most, pods*k.units), nil
}

// fullOfPods reports whether a node takes no more pods, whatever they ask for.
func fullOfPods(state *simulate.State, node simulate.Node) bool {
	slots, limited := state.Object(node).Status.Allocatable[corev1.ResourcePods]
	pods := int64(0)
	for range state.Pods(node) {
		pods++
	}
	return limited && pods >= slots.Value()
}
