// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"crypto/sha1"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// allocation translates the allocation of a claim. The prototype does not record which request a
// device serves, so there must be a single request.
func (t *toV1) allocation(translated *resourceapi.ResourceClaim, claim *v1alpha1.DeviceClaim, asks []*ask, l *losses) {
	status := &claim.Status
	const which = "v1 says for which request each configuration is, the prototype does not"
	if len(status.ClassConfigs) > 0 {
		l.report(statusPath.Child("classConfigs"), which)
	}
	if len(status.ClaimConfigs) > 0 {
		l.report(statusPath.Child("claimConfigs"), which)
	}
	if len(status.DeviceStatuses) > 0 {
		l.report(statusPath.Child("deviceStatuses"), "drivers report in other words in v1, such as IP addresses with their networks")
	}
	if len(status.PodNames) > 0 {
		l.report(statusPath.Child("podNames"), "v1 has UIDs of pods besides their names")
	}
	if len(status.Allocations) == 0 {
		return
	}
	at := statusPath.Child("allocations")
	if len(claim.Spec.Claims) != 1 || len(claim.Spec.Claims[0].OneOf) > 0 || len(asks) != 1 {
		l.drop(at, "it does not say which device serves which of several claims or alternatives")
		return
	}
	allocation := &resourceapi.AllocationResult{}
	for i := range status.Allocations {
		result, err := t.result(claim, i, asks[0])
		if err != nil {
			l.drop(at.Index(i), "%v", err)
			continue
		}
		if err := restrict(allocation, t.pools[result.Pool]); err != nil {
			l.drop(at.Index(i), "%v", err)
			continue
		}
		allocation.Devices.Results = append(allocation.Devices.Results, result)
	}
	if len(allocation.Devices.Results) > 0 {
		translated.Status.Allocation = allocation
	}
}

func (t *toV1) result(claim *v1alpha1.DeviceClaim, i int, a *ask) (resourceapi.DeviceRequestAllocationResult, error) {
	allocated := &claim.Status.Allocations[i]
	pool := t.pools[allocated.DevicePoolName]
	if pool == nil {
		return resourceapi.DeviceRequestAllocationResult{}, fmt.Errorf("DevicePool %s is not there, which knows the driver", allocated.DevicePoolName)
	}
	result := resourceapi.DeviceRequestAllocationResult{Request: a.name, Driver: pool.Spec.Driver, Pool: pool.Name, Device: allocated.DeviceName}
	if a.admin() {
		result.AdminAccess = ptr.To(true)
	}
	device := deviceOf(pool, allocated.DeviceName)
	if device == nil || len(device.Resources) == 0 {
		if len(allocated.Allocations) > 0 {
			return result, fmt.Errorf("device %s of pool %s has no resources to take from", allocated.DeviceName, pool.Name)
		}
		return result, nil
	}
	result.ShareID = ptr.To(shareID(claim.Namespace, claim.Name, i))
	result.ConsumedCapacity = make(map[resourceapi.QualifiedName]resource.Quantity, len(allocated.Allocations))
	for _, part := range allocated.Allocations {
		key, err := t.keyIn(part.Name, pool.Spec.Driver)
		if err != nil {
			return result, fmt.Errorf("%s: %w", part.Name, err)
		}
		result.ConsumedCapacity[key] = part.Allocation
	}
	return result, nil
}

func deviceOf(pool *v1alpha1.DevicePool, name string) *v1alpha1.Device {
	for i := range pool.Spec.Devices {
		if pool.Spec.Devices[i].Name == name {
			return &pool.Spec.Devices[i]
		}
	}
	return nil
}

// restrict limits an allocation to the nodes that reach the pool of a device.
func restrict(allocation *resourceapi.AllocationResult, pool *v1alpha1.DevicePool) error {
	if pool.Spec.NodeName == nil {
		return nil
	}
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{*pool.Spec.NodeName}},
	}}}}
	if known := allocation.NodeSelector; known != nil && known.String() != selector.String() {
		return fmt.Errorf("pool %s is on another node than other devices of the claim", pool.Name)
	}
	allocation.NodeSelector = selector
	return nil
}

// shareID returns the ID of a share of a device, which the prototype lacks. It is deterministic: a
// UUID of version 5.
func shareID(namespace, claim string, i int) types.UID {
	sum := sha1.Sum(fmt.Appendf(nil, "%s/%s/%s/%d", v1alpha1.GroupName, namespace, claim, i))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x50, u[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:]))
}
