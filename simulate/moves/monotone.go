// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/simulate"
)

// readMonotone finds out for which shapes fewer free devices never take more of the wanted pods, placed one after the other. They may where pods have a prioritized
// list: of four devices, or else one. Four free devices take one pod, and three free devices take three. So may partitions: the first pod
// gets a whole device, of which each part would do. One pod by itself fits on all nodes with more devices free.
func (f *finder) readMonotone(ctx context.Context, kinds []kind) error {
	f.monotone = make([]bool, len(f.shapes))
	for i, shape := range f.shapes {
		if f.monotone[i] = len(shape.Pods) == 1; f.monotone[i] {
			continue
		}
		k := f.kindOf(kinds, shape)
		if k == nil {
			continue
		}
		all := true
		known := make(map[simulate.RoomDevices]bool)
		for _, node := range f.nodes {
			var err error
			if all, err = f.isMonotone(ctx, shape, k, node, known); err != nil {
				return err
			}
			if !all {
				break
			}
		}
		f.monotone[i] = all
	}
	return nil
}

// kindOf returns the kind of the wanted pods of a shape, or nil if it is not told what they ask for.
func (f *finder) kindOf(kinds []kind, shape *simulate.Shape) *kind {
	number := f.wantedKinds[slices.Index(f.Wanted, shape.Pods[0])]
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.number == number })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}

// isMonotone reports whether that holds for a node. It does if the pods request a number of devices, and as many pods as get devices there take none of
// which another one is a part. It does, too, if the node never takes a single pod, or two of them. Pods that request all devices get the same ones, so if
// no second one fits beside the first, none ever does. It may not where other nodes affect the devices that pods get, see simulate.ErrNotAlone. known has
// the devices of nodes for which it holds.
func (f *finder) isMonotone(ctx context.Context, shape *simulate.Shape, k *kind, node simulate.Node, known map[simulate.RoomDevices]bool) (bool, error) {
	if k.none {
		return true, nil
	}
	f.scratch.Fork()
	defer f.scratch.Revert()
	if err := f.evictAll(node); err != nil {
		return false, err
	}
	// Pods on other nodes may take the devices that pods get here, and which they take depends on the order.
	if _, sure, err := take(ctx, f.scratch.State(), shape, node, 1); err != nil || !sure {
		return false, err
	}
	room, err := f.scratch.State().Room(node)
	if err != nil || known[room.Devices()] {
		return err == nil, err
	}
	free := freeDevices(f.scratch.State(), node)
	alone := int64(free) < 2*k.least
	for n := 0; ; n++ {
		result, err := f.scratch.PutShape(ctx, shape, node)
		if err != nil || result.Undecided > 0 {
			return false, err
		}
		if !result.All() {
			more, sure, err := take(ctx, f.scratch.State(), shape, node, 1)
			if n > 0 && more == 0 && sure {
				known[room.Devices()] = true
			}
			return alone || more == 0 && sure, err
		}
		now := freeDevices(f.scratch.State(), node)
		if taken := int64(free - now); taken < max(1, k.least) || !alone && !k.all && (!k.simple || taken != k.units) {
			return false, nil
		}
		free = now
	}
}

// leastDevices is how many devices a pod takes at least that nobody else uses then.
func leastDevices(claims []*resourceapi.ResourceClaim) (n int64) {
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			switch {
			case request.Exactly == nil:
				n++
			case request.Exactly.AdminAccess != nil && *request.Exactly.AdminAccess:
			case request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeExactCount:
				n += request.Exactly.Count
			default:
				n++
			}
		}
	}
	return n
}

// wantsAll reports whether each request is for all devices that match, and takes them from others.
func wantsAll(claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			exact := claim.Spec.Devices.Requests[i].Exactly
			if exact == nil || exact.AllocationMode != resourceapi.DeviceAllocationModeAll || exact.AdminAccess != nil && *exact.AdminAccess {
				return false
			}
		}
		if claim.Annotations[extension.Annotation] != "" {
			return false
		}
	}
	return len(claims) > 0
}
