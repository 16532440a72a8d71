// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bound is a device that needs condition "attached", and fails with condition "broken".
func bound(device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{
		Driver: "d", Pool: "p", Device: device, BindingConditions: []string{"attached"}, BindingFailureConditions: []string{"broken"},
	}
}

// says is what a driver reports of device gpu-0, condition by condition.
func says(status metav1.ConditionStatus, conditions ...string) resourceapi.AllocatedDeviceStatus {
	reported := resourceapi.AllocatedDeviceStatus{Driver: "d", Pool: "p", Device: "gpu-0"}
	for _, name := range conditions {
		reported.Conditions = append(reported.Conditions, metav1.Condition{Type: name, Status: status, Reason: "Reason", Message: "message"})
	}
	return reported
}

// A claim is ready when each of its devices with binding conditions has all of them, and failed with one of the others.
func TestReady(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	gpu, plain := bound("gpu-0"), resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: "plain", BindingFailureConditions: []string{"broken"}}
	otherDriver, otherPool, otherDevice := says(yes, "attached"), says(yes, "attached"), says(yes, "attached")
	otherDriver.Driver, otherPool.Pool, otherDevice.Device = "e", "q", "gpu-1"
	failed := says(yes, "broken")
	failed.Conditions = append(failed.Conditions, says(yes, "attached").Conditions...)
	type results = []resourceapi.DeviceRequestAllocationResult
	type statuses = []resourceapi.AllocatedDeviceStatus
	for name, test := range map[string]struct {
		devices     results
		reported    statuses
		conditional bool
		ready       bool
		err         string
	}{
		"no conditions":         {results{plain}, nil, false, true, ""},
		"nothing reported":      {results{gpu}, nil, true, false, ""},
		"attached":              {results{plain, gpu}, statuses{says(yes, "attached")}, true, true, ""},
		"attached later":        {results{gpu}, statuses{says(no, "attached")}, true, false, ""},
		"another condition":     {results{gpu}, statuses{says(yes, "flashed")}, true, false, ""},
		"of another driver":     {results{gpu}, statuses{otherDriver}, true, false, ""},
		"of another pool":       {results{gpu}, statuses{otherPool}, true, false, ""},
		"of another device":     {results{gpu}, statuses{otherDevice}, true, false, ""},
		"of several":            {results{gpu}, statuses{otherDriver, otherPool, otherDevice, says(yes, "attached")}, true, true, ""},
		"the second one is not": {results{gpu, bound("gpu-1")}, statuses{says(yes, "attached")}, true, false, ""},
		"both are":              {results{gpu, bound("gpu-1")}, statuses{says(yes, "attached"), otherDevice}, true, true, ""},
		"attached, and broken":  {results{gpu}, statuses{failed}, true, false, `claim=c, reason=Reason, message="message"`},
		"not broken":            {results{gpu}, statuses{says(no, "broken", "attached")}, true, false, ""},
		"plain device of which is said that it broke": {results{plain}, statuses{{Driver: "d", Pool: "p", Device: "plain", Conditions: says(yes, "broken").Conditions}}, false, true, ""},
	} {
		claim := named("c")
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: test.devices}}
		claim.Status.Devices = test.reported
		ready, err := Ready(claim)
		if ready != test.ready || (err == nil) != (test.err == "") || err != nil && (!errors.Is(err, ErrBindingFailed) || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: ready %t, error %v; want %t, %q", name, ready, err, test.ready, test.err)
		}
		if BindsConditionally(claim) != test.conditional {
			t.Errorf("%s: binds conditionally %t", name, !test.conditional)
		}
		if open := Waiting([]*Claim{{Object: named("other")}, {Object: claim}}); test.ready && open != "" || !test.ready && test.err == "" && open == "" {
			t.Errorf("%s: waits for %q", name, open)
		}
	}
	if ready, err := Ready(named("c")); ready || err != nil || BindsConditionally(named("c")) {
		t.Errorf("without an allocation: ready %t, error %v", ready, err)
	}
}
