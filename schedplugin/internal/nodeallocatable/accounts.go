// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeallocatable

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/dray-project/dray/pools"
)

// Claim is a claim of the pod.
type Claim struct {
	// Name is the name in the pod's spec.
	Name string
	// Object is the claim. Its status.reservedFor has only other pods than this one. It is empty if the claim is reserved for this pod.
	Object *resourceapi.ResourceClaim
	// Allocation is the claim's allocation. Nil if it differs from node to node.
	Allocation *resourceapi.AllocationResult
}

// Accounts is what the in-tree plugin computes for one pod in one scheduling cycle. It is safe for concurrent use.
type Accounts struct {
	mu     sync.Mutex
	pod    *corev1.Pod
	claims []Claim
	view   *view
	plugin *dynamicresources.DynamicResources
	// state has the cycle state of the in-tree plugin.
	state fwk.CycleState
}

// Open starts the accounts of a pod with its allocated claims. The snapshot has their devices.
func Open(ctx context.Context, of fwk.Handle, features feature.Features, snapshot *pools.Snapshot, pod *corev1.Pod, claims []Claim) (*Accounts, *fwk.Status) {
	a := &Accounts{pod: pod, claims: claims, state: framework.NewCycleState(), view: &view{
		SharedDRAManager: of.SharedDRAManager(), tracker: tracker{claims: make(map[string]*resourceapi.ResourceClaim)},
	}}
	var allocated []*resourceapi.AllocationResult
	for _, claim := range claims {
		object := &resourceapi.ResourceClaim{ObjectMeta: claim.Object.ObjectMeta}
		// Node selector and binding conditions are left out: Filter checked them already.
		object.Status.ReservedFor, object.Status.Allocation = claim.Object.Status.ReservedFor, &resourceapi.AllocationResult{}
		if claim.Allocation != nil {
			allocated = append(allocated, claim.Allocation)
			object.Status.Allocation.Devices = claim.Allocation.Devices
		}
		a.view.claims[object.Name] = object
	}
	a.view.slices = SlicesOf(snapshot, allocated)
	made, err := dynamicresources.New(ctx, &config.DynamicResourcesArgs{}, &handle{
		Handle: of, view: a.view, neverStarted: informers.NewSharedInformerFactory(of.ClientSet(), 0),
	}, feature.Features{
		EnableDynamicResourceAllocation:   true,
		EnableDRANodeAllocatableResources: true,
		EnablePodLevelResources:           features.EnablePodLevelResources,
	})
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("accounting for node-allocatable resources: %w", err))
	}
	a.plugin = made.(*dynamicresources.DynamicResources)
	if _, status := a.plugin.PreFilter(ctx, a.state, withClaims(pod, claims), nil); !status.IsSuccess() {
		return nil, status
	}
	return a, nil
}

// Check reports whether a node has what the pod requests and its devices take. Allocations are those of the
// claims without one, by UID. Slices are those of the devices of all claims.
func (a *Accounts) Check(ctx context.Context, nodeInfo fwk.NodeInfo, allocations map[types.UID]*resourceapi.AllocationResult, slices []*resourceapi.ResourceSlice) *fwk.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.view.slices = slices
	for _, claim := range a.claims {
		if claim.Allocation == nil {
			devices := resourceapi.DeviceAllocationResult{}
			if found := allocations[claim.Object.UID]; found != nil {
				devices = found.Devices
			}
			a.view.claims[claim.Object.Name].Status.Allocation.Devices = devices
		}
	}
	return a.plugin.Filter(ctx, a.state, withClaims(a.pod, a.claims), nodeInfo)
}

// Publish copies the accounts into a cycle state, where the scheduler reads them.
func (a *Accounts) Publish(state fwk.CycleState) error {
	data, err := a.state.Read(dynamicresources.Name)
	if err != nil {
		return fmt.Errorf("accounts of node-allocatable resources: %w", err)
	}
	state.Write(dynamicresources.Name, data)
	return nil
}

// SlicesOf returns the slices of the devices' pools. It is nil if no device stands for resources of its node.
func SlicesOf(snapshot *pools.Snapshot, allocations []*resourceapi.AllocationResult) []*resourceapi.ResourceSlice {
	var slices []*resourceapi.ResourceSlice
	found, seen := false, make(map[pools.PoolID]bool)
	for _, allocation := range allocations {
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			id := pools.PoolID{Driver: result.Driver, Name: result.Pool}
			pool, ok := snapshot.Pool(id)
			if !ok {
				continue
			}
			for device := range pool.Lookup(result.Device) {
				found = found || len(device.Object().NodeAllocatableResources) > 0
			}
			if !seen[id] {
				seen[id] = true
				for slice := range pool.Slices() {
					slices = append(slices, slice)
				}
			}
		}
	}
	if !found {
		return nil
	}
	return slices
}

// Any reports whether a device of the snapshot stands for resources of its node.
func Any(snapshot *pools.Snapshot) bool {
	for pool := range snapshot.Pools() {
		for device := range pool.Devices() {
			if len(device.Object().NodeAllocatableResources) > 0 {
				return true
			}
		}
	}
	return false
}
