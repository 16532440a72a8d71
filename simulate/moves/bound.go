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

// kind is pods that ask for the same. The ask of simple ones is for no devices, or for a number of devices in one request without anything else.
type kind struct {
	number int // in finder.kinds
	pods   []*corev1.Pod
	// simple is set if the pods ask for nothing but so many units. Asks are how many devices they ask for in each way, at least.
	simple bool
	asks   map[string]int64
	units  int64  // devices of a pod; 1 if it has none
	none   bool   // no devices
	ask    string // what they ask for, but for the number of devices and the resources
	needs  corev1.ResourceList
}

// kindsOf lists the kinds of pods of which it can be told what they ask for.
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
		if !found {
			continue
		}
		k := kind{number: number, pods: shape.Pods, none: len(claims) == 0, needs: needs(pod), asks: asks(pod, claims)}
		k.ask, k.units, k.simple = plainAsk(pod, claims)
		list = append(list, k)
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
	if len(claims) == 0 {
		ask, _, simple = askFor(pod, nil)
		return ask, 1, simple && ownClaims(pod)
	}
	spec := &claims[0].Spec.Devices
	if len(claims) > 1 || claims[0].Annotations[extension.Annotation] != "" || len(spec.Requests) != 1 || len(spec.Constraints) > 0 || !ownClaims(pod) {
		return "", 0, false
	}
	return askFor(pod, &spec.Requests[0])
}

// asks are numbers of devices that a pod asks for, at least, by what it asks for.
func asks(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) map[string]int64 {
	all := make(map[string]int64)
	if !ownClaims(pod) {
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

// ownClaims reports whether nobody else uses the claims of a pod.
func ownClaims(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.ResourceClaimTemplateName == nil })
}

// askFor is what a request of a pod is for, and for how many devices. Without a request it is about nodes alone.
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

// demand is kinds of pods that ask for the same, but for the number of devices. The first asks for least.
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
