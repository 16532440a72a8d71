// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"
)

// grant is what one scheduling cycle gives to a pod.
type grant struct {
	claim *resourceapi.ResourceClaim
	// mappings are set if the claim stands for an extended resource. Then it has to be made.
	mappings   []corev1.ContainerExtendedResourceRequest
	allocation *resourceapi.AllocationResult
}

// Clone implements StateData of the framework.
func (g *grant) Clone() fwk.StateData { return g }

func grantOf(state fwk.CycleState) *grant {
	found, err := state.Read(FloorName)
	if err != nil {
		return nil // PreFilter skipped the pod
	}
	return found.(*grant)
}

// extendedClaim is the claim to make for a pod whose first container asks for one device of
// an extended resource, nil if it does not.
func (f *Floor) extendedClaim(pod *corev1.Pod, g *grant) *resourceapi.ResourceClaim {
	container := &pod.Spec.Containers[0]
	for i, name := range slices.Sorted(maps.Keys(container.Resources.Requests)) {
		class := f.handle.SharedDRAManager().DeviceClassResolver().GetDeviceClass(name)
		if class == nil {
			continue
		}
		request := fmt.Sprintf("container-0-request-%d", i)
		g.mappings = []corev1.ContainerExtendedResourceRequest{{ContainerName: container.Name, ResourceName: string(name), RequestName: request}}
		return &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:    pod.Namespace,
				GenerateName: pod.Name + "-extended-resources-",
				Annotations:  map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
				Finalizers:   []string{resourceapi.Finalizer},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
				}},
			},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name: request,
				Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				},
			}}}},
		}
	}
	return nil
}

// Reserve implements ReservePlugin.
func (f *Floor) Reserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeName string) *fwk.Status {
	g := grantOf(state)
	if g == nil {
		return nil
	}
	taken := f.stock.take(nodeName, holderOf(g.claim))
	if taken == nil {
		return fwk.AsStatus(fmt.Errorf("node %s has nothing left", nodeName))
	}
	g.allocation = taken.allocation(g.claim, nodeName)
	return nil
}

// Unreserve implements ReservePlugin. What PreBind wrote is left alone: nothing should fail.
func (f *Floor) Unreserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) {
	if g := grantOf(state); g != nil {
		f.stock.release(holderOf(g.claim))
	}
}

// allocation spells out that a claim gets the devices, in their order.
func (u *unit) allocation(claim *resourceapi.ResourceClaim, nodeName string) *resourceapi.AllocationResult {
	result := &resourceapi.AllocationResult{
		AllocationTimestamp: &metav1.Time{Time: time.Now()},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName},
			}},
		}}},
	}
	next := 0
	for _, request := range claim.Spec.Devices.Requests {
		for range request.Exactly.Count {
			device := resourceapi.DeviceRequestAllocationResult{
				Request: request.Name, Driver: u.shelf.driver, Pool: u.shelf.pool, Device: u.devices[next],
			}
			if capacity := request.Exactly.Capacity; capacity != nil {
				device.ConsumedCapacity = capacity.Requests
				device.ShareID = ptr.To(uuid.NewUUID())
			}
			result.Devices.Results = append(result.Devices.Results, device)
			next++
		}
	}
	return result
}

// PreBindPreFlight implements PreBindPlugin.
func (f *Floor) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	if grantOf(state) == nil {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind implements PreBindPlugin: two writes for a claim, three for an extended resource.
func (f *Floor) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	g := grantOf(state)
	if g == nil {
		return nil
	}
	written, err := f.write(ctx, g, pod)
	if err == nil {
		err = f.assume(ctx, g, written)
	}
	if err == nil && g.mappings != nil {
		status := pod.Status.DeepCopy()
		status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: g.mappings, ResourceClaimName: written.Name}
		err = schedutil.PatchPodStatus(ctx, f.handle.ClientSet(), pod.Name, pod.Namespace, &pod.Status, status)
	}
	return fwk.AsStatus(err)
}

func (f *Floor) write(ctx context.Context, g *grant, pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	claims := f.handle.ClientSet().ResourceV1().ResourceClaims(pod.Namespace)
	claim := g.claim.DeepCopy()
	var err error
	switch {
	case g.mappings != nil:
		claim, err = claims.Create(ctx, claim, metav1.CreateOptions{})
	case !slices.Contains(claim.Finalizers, resourceapi.Finalizer):
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	claim.Status.Allocation = g.allocation
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	return claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
}

// assume has the scheduler see the claim as it was written. One that was only just created
// is not known to it yet, and need not be.
func (f *Floor) assume(_ context.Context, g *grant, written *resourceapi.ResourceClaim) error {
	err := f.claims.AssumeClaimAfterAPICall(written)
	if g.mappings != nil && errors.Is(err, assumecache.ErrNotFound) {
		return nil
	}
	return err
}
