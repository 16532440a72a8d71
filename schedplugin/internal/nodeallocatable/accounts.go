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

// Claim is one of a pod.
type Claim struct {
	// Name is what the pod calls it.
	Name string
	// Object is the claim. What it has in status.reservedFor are other pods, empty if the pod may use it.
	Object *resourceapi.ResourceClaim
	// Allocation is the one that it has, nil if it gets one on each node.
	Allocation *resourceapi.AllocationResult
}

// Accounts are those of one pod in one scheduling cycle. They are safe for concurrent use.
type Accounts struct {
	mu     sync.Mutex
	pod    *corev1.Pod
	claims []Claim
	view   *view
	plugin *dynamicresources.DynamicResources
	// state has the state of the plugin.
	state fwk.CycleState
}

// Open begins accounts for a pod. The snapshot has the devices of claims that are allocated.
func Open(ctx context.Context, of fwk.Handle, features feature.Features, snapshot *pools.Snapshot, pod *corev1.Pod, claims []Claim) (*Accounts, *fwk.Status) {
	a := &Accounts{pod: pod, claims: claims, state: framework.NewCycleState(), view: &view{
		SharedDRAManager: of.SharedDRAManager(), tracker: tracker{claims: make(map[string]*resourceapi.ResourceClaim)},
	}}
	var allocated []*resourceapi.AllocationResult
	for _, claim := range claims {
		object := &resourceapi.ResourceClaim{ObjectMeta: claim.Object.ObjectMeta}
		// Where it is available was looked at already, and what its devices wait for.
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

// Check says whether a node has what the pod requests, its devices included. Allocations are those of the claims that
// have none yet, by UID, and slices those of the devices of all claims.
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

// Publish has the scheduler find the accounts in the state of a cycle.
func (a *Accounts) Publish(state fwk.CycleState) error {
	data, err := a.state.Read(dynamicresources.Name)
	if err != nil {
		return fmt.Errorf("accounts of node-allocatable resources: %w", err)
	}
	state.Write(dynamicresources.Name, data)
	return nil
}

// SlicesOf are those of the pools of devices, if one of the devices stands for resources of its node, else none.
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
