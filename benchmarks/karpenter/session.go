// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"unique"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/pools"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// session is one of Karpenter's scheduling loops: an allocator for slices and devices in use, which
// is asked about pods and nodes.
type session struct {
	allocator *dynamicresources.Allocator
	asked     int
}

// newSession does what Karpenter does once per scheduling loop, for slices that were listed before.
func newSession(c *alloctest.Case, slices []dynamicresources.ResourceSlice) *session {
	return &session{
		allocator: dynamicresources.NewAllocator(slices, inUse(c), nil, newClassReader(c.Classes), sets.New[types.UID]()),
	}
}

// published wraps slices as Karpenter does.
func published(slices []*resourceapi.ResourceSlice) []dynamicresources.ResourceSlice {
	wrapped := make([]dynamicresources.ResourceSlice, len(slices))
	for i, slice := range slices {
		wrapped[i] = dynamicresources.NewAPIServerSlice(slice)
	}
	return wrapped
}

// device is an allocated device of a claim.
type device struct {
	claim int
	id    pools.DeviceID
}

// devices allocates claims on a node, returns their devices, and releases them. Claims get a new
// name each time, because Karpenter caches allocations by claim name.
func (s *session) devices(ctx context.Context, claims []*resourceapi.ResourceClaim, node dynamicresources.NodeClaim) ([]device, error) {
	s.asked++
	renamed := make([]*resourceapi.ResourceClaim, len(claims))
	for i, claim := range claims {
		renamed[i] = claim.DeepCopy()
		renamed[i].Name = fmt.Sprintf("%s-%d", claim.Name, s.asked)
	}
	result, err := s.allocator.Allocate(ctx, node, renamed)
	if err != nil {
		return nil, err
	}
	if result.Allocation == nil {
		return nil, nil // nothing to allocate
	}
	result.Allocation.Commit(ctx)
	defer s.allocator.ReleaseInstanceType(ctx, node.ID(), node.InstanceTypes()...)
	return s.taken(renamed, node.InstanceTypes()[0]), nil
}

// taken returns the devices of claims if the node has an instance type.
func (s *session) taken(claims []*resourceapi.ResourceClaim, instanceType dynamicresources.InstanceTypeID) []device {
	var devices []device
	for i, claim := range claims {
		got := s.allocator.ResourceClaimAllocationMetadataForClaim(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		if got == nil {
			continue // allocated before
		}
		for _, d := range got.Devices[instanceType] {
			id := d.DeviceID
			devices = append(devices, device{claim: i, id: pools.DeviceID{Driver: id.Driver.Value(), Pool: id.Pool.Value(), Device: id.Device.Value()}})
		}
	}
	return devices
}

// nodeNamed returns a node of the case.
func nodeNamed(c *alloctest.Case, name string) *corev1.Node {
	for _, node := range c.Nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

func handle(s string) unique.Handle[string] { return unique.Make(s) }

// noInstanceType is Karpenter's error if a search finds no allocation.
const noInstanceType = "no instance type can satisfy the allocation"
