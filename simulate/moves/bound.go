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
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/simulate"
)

// bound returns an upper bound of how many more targets can be free than before. Targets in use by pods that stay do not
// count. For nodes, it also subtracts those that the pods need.
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

// kind is pods with equal requests. A simple kind has no devices, or one request for a number of devices without constraints.
type kind struct {
	number int // in finder.kinds
	pods   []*corev1.Pod
	// simple is set if the pods request nothing but that many units. asks has the minimum number of devices by request, see askFor.
	simple bool
	asks   map[string]int64
	units  int64  // devices of a pod; 1 if it has none
	least  int64  // minimum number of devices that a pod allocates for itself alone
	all    bool   // each request is for all devices that match, so that other such pods never share its node unless they share the devices
	none   bool   // no devices, and no claim that may need some once it is deallocated
	ask    string // the request without the number of devices, see askFor
	needs  corev1.ResourceList
}

// kindsOf lists the kinds whose claims are known: those of which a pod runs, or would fit after evictions.
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
			sets, _, err := f.state.Victims(ctx, shape, f.on, f.costOf, 1)
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
		if !found {
			continue
		}
		k := kind{number: number, pods: shape.Pods, none: len(claims) == 0 && podclaims.OnlyOwn(pod), needs: needs(pod), asks: asks(pod, claims)}
		if podclaims.OnlyOwn(pod) {
			k.least, k.all = leastDevices(claims), wantsAll(claims)
		}
		k.ask, k.units, k.simple = plainAsk(pod, claims)
		list = append(list, k)
	}
	return list, nil
}

// claimsOf returns the claims of a pod if it is placed on a node after victims are evicted. found is false if it does not fit.
func (f *finder) claimsOf(ctx context.Context, pod *corev1.Pod, node simulate.Node, victims []*corev1.Pod) (claims []*resourceapi.ResourceClaim, found bool, err error) {
	f.scratch.Fork()
	defer f.scratch.Revert()
	if err := f.scratch.Evict(victims...); err != nil {
		return nil, false, err
	}
	result, err := f.put(ctx, f.scratch, pod, node)
	if err != nil {
		return nil, false, err
	}
	for placement := range result.Placements() {
		claims, err = placement.Claims(ctx)
		return claims, true, err
	}
	return nil, false, nil
}

// needs returns a pod's requests of CPU, memory and other resources.
func needs(pod *corev1.Pod) corev1.ResourceList {
	list := nodefit.Needs(pod)
	delete(list, corev1.ResourcePods)
	return list
}

// plainAsk returns the request of a pod and its number of devices. simple is false unless the pod has one exact request without constraints.
func plainAsk(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) (ask string, units int64, simple bool) {
	if len(claims) == 0 {
		ask, _, simple = askFor(pod, nil)
		return ask, 1, simple && podclaims.OnlyOwn(pod)
	}
	spec := &claims[0].Spec.Devices
	if len(claims) > 1 || claims[0].Annotations[extension.Annotation] != "" || len(spec.Requests) != 1 || len(spec.Constraints) > 0 || !podclaims.OnlyOwn(pod) {
		return "", 0, false
	}
	return askFor(pod, &spec.Requests[0])
}

// asks returns the minimum number of devices that a pod requests, by request.
func asks(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) map[string]int64 {
	all := make(map[string]int64)
	if !podclaims.OnlyOwn(pod) {
		return all
	}
	for _, claim := range claims {
		if claim.Annotations[extension.Annotation] != "" {
			continue
		}
		for i := range claim.Spec.Devices.Requests {
			if ask, units, simple := askFor(pod, &claim.Spec.Devices.Requests[i]); simple {
				all[ask] += units
			}
		}
	}
	return all
}

// askFor returns a key for a request, and its number of devices. The key covers selectors, tolerations and node selection. A nil request stands
// for a pod without devices.
func askFor(pod *corev1.Pod, request *resourceapi.DeviceRequest) (ask string, units int64, simple bool) {
	var exact *resourceapi.ExactDeviceRequest
	if request != nil {
		if request.Exactly == nil {
			return "", 0, false
		}
		exact = request.Exactly.DeepCopy()
		if exact.AllocationMode != resourceapi.DeviceAllocationModeExactCount || exact.Capacity != nil || exact.AdminAccess != nil {
			return "", 0, false
		}
		units, exact.Count = exact.Count, 0
	}
	text, err := json.Marshal([]any{exact, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations})
	return string(text), units, err == nil
}

// demand is kinds that differ only in the number of devices. The first has the smallest number.
type demand []kind

// demands groups kinds that differ in the number of devices only. A kind joins a group if, for each device, it needs at least as much
// of all other resources as the first kind of the group. So a node with room for a pod of 4 devices has room for 4 pods of one device.
func demands(kinds []kind) []demand {
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(a.units, b.units) })
	var list []demand
	for _, k := range kinds {
		if !k.simple {
			continue
		}
		at := slices.IndexFunc(list, func(d demand) bool { return d[0].ask == k.ask && d[0].scales(&k) })
		if at < 0 {
			list = append(list, demand{k})
			continue
		}
		list[at] = append(list[at], k)
	}
	return list
}

// scales reports whether a larger kind requests at least as much of every resource per device.
func (k *kind) scales(larger *kind) bool {
	for name, least := range k.needs {
		has := larger.needs[name]
		if has.AsApproximateFloat64()*float64(k.units) < least.AsApproximateFloat64()*float64(larger.units)*(1-1e-9) {
			return false
		}
	}
	return true
}

// keptFor returns a lower bound of how many nodes keep pods: those that cannot be empty, and as many others as the pods of a demand
// need, the nodes with most room first.
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

// room returns how many devices pods of a kind get on a node without the movable pods, at most a given number. It returns that number
// if the result would not be an upper bound.
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
		result, err := e.put(ctx, e.scratch, k.pods[0], node)
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

// fullOfPods reports whether a node has reached its maximum number of pods.
func fullOfPods(state *simulate.State, node simulate.Node) bool {
	slots, limited := state.Object(node).Status.Allocatable[corev1.ResourcePods]
	pods := int64(0)
	for range state.Pods(node) {
		pods++
	}
	return limited && pods >= slots.Value()
}
