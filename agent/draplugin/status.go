// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
)

// Types of conditions that a driver sets in status.devices of a claim (KEP-4817).
const (
	// ConditionReady is True while the device is prepared for the claim, and False if
	// preparing it failed.
	ConditionReady = "Ready"
	// ConditionHealthy is the health that the source reports. It is Unknown if the source ended, or
	// no longer has the device.
	ConditionHealthy = "Healthy"
)

// observed is the input of the entries in a claim's status.devices.
type observed struct {
	results []resourceapi.DeviceRequestAllocationResult // of the driver
	failure error                                       // why the claim is not prepared; nil if it is
	in      *inventory.Inventory
	lost    error // why the source ended, or nil
}

// deviceKey identifies an entry of status.devices of one driver.
type deviceKey struct{ pool, device, share string }

func keyOfResult(result *resourceapi.DeviceRequestAllocationResult) deviceKey {
	return deviceKey{result.Pool, result.Device, string(ptr.Deref(result.ShareID, ""))}
}

func keyOfStatus(status *resourceapi.AllocatedDeviceStatus) deviceKey {
	return deviceKey{status.Pool, status.Device, ptr.Deref(status.ShareID, "")}
}

// wanted returns the desired entries of status.devices, in the order of the results. A device of
// several requests has one entry. Unchanged conditions keep the time of their transition.
func (d *Driver) wanted(o observed, before []resourceapi.AllocatedDeviceStatus, now metav1.Time) []resourceapi.AllocatedDeviceStatus {
	conditions := make(map[deviceKey][]metav1.Condition, len(before))
	for i := range before {
		conditions[keyOfStatus(&before[i])] = before[i].Conditions
	}
	var out []resourceapi.AllocatedDeviceStatus
	seen := make(map[deviceKey]bool, len(o.results))
	for i := range o.results {
		result := &o.results[i]
		key := keyOfResult(result)
		if seen[key] {
			continue
		}
		seen[key] = true
		status := resourceapi.AllocatedDeviceStatus{Driver: d.options.DriverName, Pool: result.Pool, Device: result.Device}
		if key.share != "" {
			status.ShareID = &key.share
		}
		for _, condition := range []metav1.Condition{readyCondition(o.failure), healthCondition(o.in.Device(d.id(*result)), o.lost)} {
			if old := meta.FindStatusCondition(conditions[key], condition.Type); old != nil && old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			} else {
				condition.LastTransitionTime = now
			}
			status.Conditions = append(status.Conditions, condition)
		}
		if device := o.in.Device(d.id(*result)); device != nil {
			status.NetworkData = device.ReportedNetwork()
			if raw := device.ReportedDetails(); raw != nil {
				status.Data = &runtime.RawExtension{Raw: raw}
			}
		}
		out = append(out, status)
	}
	return out
}

func readyCondition(failure error) metav1.Condition {
	if failure != nil {
		return newCondition(ConditionReady, metav1.ConditionFalse, "PrepareFailed", failure.Error())
	}
	return newCondition(ConditionReady, metav1.ConditionTrue, "Prepared", "")
}

func healthCondition(device *inventory.Device, lost error) metav1.Condition {
	switch {
	case lost != nil:
		return newCondition(ConditionHealthy, metav1.ConditionUnknown, "SourceLost", lost.Error())
	case device == nil:
		return newCondition(ConditionHealthy, metav1.ConditionUnknown, "DeviceGone", "the device is not on this node any more")
	case device.Health.Unhealthy:
		return newCondition(ConditionHealthy, metav1.ConditionFalse, inventory.ConditionReason(device.Health.Reason, "Unhealthy"), device.Health.Message)
	default:
		return newCondition(ConditionHealthy, metav1.ConditionTrue, "Healthy", device.Health.Message)
	}
}

func newCondition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: inventory.ConditionMessage(message)}
}

// ours returns the driver's entries, without conditions of other writers.
func (d *Driver) ours(claim *resourceapi.ResourceClaim) []resourceapi.AllocatedDeviceStatus {
	var out []resourceapi.AllocatedDeviceStatus
	for i := range claim.Status.Devices {
		if claim.Status.Devices[i].Driver != d.options.DriverName {
			continue
		}
		status := claim.Status.Devices[i].DeepCopy()
		status.Conditions = nil
		for _, kind := range []string{ConditionReady, ConditionHealthy} {
			if condition := meta.FindStatusCondition(claim.Status.Devices[i].Conditions, kind); condition != nil {
				status.Conditions = append(status.Conditions, *condition)
			}
		}
		out = append(out, *status)
	}
	return out
}
