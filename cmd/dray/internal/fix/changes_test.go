// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func exactly(request resourceapi.ExactDeviceRequest) resourceapi.DeviceRequest {
	if request.AllocationMode == "" {
		request.AllocationMode = resourceapi.DeviceAllocationModeExactCount
	}
	return resourceapi.DeviceRequest{Name: "r", Exactly: &request}
}

// TestChanges has the changes that are tried, in order: what the user wants most is given up last.
func TestChanges(t *testing.T) {
	selectors := func(expressions ...string) (list []resourceapi.DeviceSelector) {
		for _, expression := range expressions {
			list = append(list, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
		}
		return list
	}
	taints := []resourceapi.DeviceTaint{{Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	classes := []string{"gpu", "gpus", "tpu"}
	full := make([]resourceapi.DeviceToleration, resourceapi.DeviceTolerationsMaxLength)
	for name, c := range map[string]struct {
		spec   resourceapi.DeviceClaim
		taints []resourceapi.DeviceTaint
		want   []string
	}{
		"nothing":     {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1})}}, nil, nil},
		"no count":    {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"})}}, nil, nil},
		"a count":     {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 3})}}, nil, []string{"request r: count 2 instead of 3", "request r: count 1 instead of 3"}},
		"all":         {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll})}}, nil, []string{"request r: one device instead of all"}},
		"a class":     {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpuu", Count: 1})}}, nil, []string{"request r: deviceClassName gpu instead of gpuu", "request r: deviceClassName gpus instead of gpuu"}},
		"a taint":     {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1})}}, taints, []string{"request r: the taint k=v:NoSchedule is tolerated"}},
		"tolerating":  {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1, Tolerations: full})}}, taints, nil},
		"almost full": {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1, Tolerations: full[1:]})}}, taints, []string{"request r: the taint k=v:NoSchedule is tolerated"}},
		"admin":       {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpuu", Count: 3, AdminAccess: ptr.To(true)})}}, taints, nil},
		"no admin":    {resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2, AdminAccess: ptr.To(false)})}}, nil, []string{"request r: count 1 instead of 2"}},
		"everything, in order": {
			resourceapi.DeviceClaim{
				Requests: []resourceapi.DeviceRequest{
					exactly(resourceapi.ExactDeviceRequest{DeviceClassName: "tpuu", Count: 2, Selectors: selectors("a", "b")}),
					{Name: "s", FirstAvailable: []resourceapi.DeviceSubRequest{
						{Name: "x", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2, Selectors: selectors("c")},
						{Name: "y", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll},
					}},
				},
				Constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To[resourceapi.FullyQualifiedName]("d/m")}, {DistinctAttribute: ptr.To[resourceapi.FullyQualifiedName]("d/n")}, {}},
			},
			taints,
			[]string{
				"request r: deviceClassName tpu instead of tpuu", "request r: the taint k=v:NoSchedule is tolerated", "request s/x: the taint k=v:NoSchedule is tolerated", "request s/y: the taint k=v:NoSchedule is tolerated",
				"request r: count 1 instead of 2", "request s/x: count 1 instead of 2", "request s/y: one device instead of all",
				"without constraints[0]: matchAttribute d/m", "without constraints[1]: distinctAttribute d/n", "without constraints[2]",
				"request r: without selectors[0]", "request s/x: without selectors[0]", "request r: without selectors[1]",
			},
		},
	} {
		spec := &resourceapi.ResourceClaimSpec{Devices: c.spec}
		before := spec.DeepCopy()
		var got []string
		for _, change := range changes(spec, classes, c.taints) {
			got = append(got, change.text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
		if diff := cmp.Diff(before, spec); diff != "" {
			t.Errorf("%s: the claim itself was changed:\n%s", name, diff)
		}
	}
}

// TestChangedSpecs has what each change makes of a claim: only what its text says.
func TestChangedSpecs(t *testing.T) {
	spec := &resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{exactly(resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpuu", Count: 2, Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "a"}}, {CEL: &resourceapi.CELDeviceSelector{Expression: "b"}}},
		}), {Name: "s", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "x", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll}}}},
		Constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To[resourceapi.FullyQualifiedName]("d/m")}, {DistinctAttribute: ptr.To[resourceapi.FullyQualifiedName]("d/n")}},
	}}
	taint := resourceapi.DeviceTaint{Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoExecute}
	made := make(map[string]*resourceapi.DeviceClaim)
	for _, change := range changes(spec, []string{"gpu"}, []resourceapi.DeviceTaint{taint}) {
		made[change.text] = &change.spec.Devices
	}
	for text, apply := range map[string]func(*resourceapi.DeviceClaim){
		"request r: deviceClassName gpu instead of gpuu": func(d *resourceapi.DeviceClaim) { d.Requests[0].Exactly.DeviceClassName = "gpu" },
		"request r: count 1 instead of 2":                func(d *resourceapi.DeviceClaim) { d.Requests[0].Exactly.Count = 1 },
		"request s/x: one device instead of all": func(d *resourceapi.DeviceClaim) {
			d.Requests[1].FirstAvailable[0].AllocationMode, d.Requests[1].FirstAvailable[0].Count = resourceapi.DeviceAllocationModeExactCount, 1
		},
		"request r: the taint k=v:NoExecute is tolerated": func(d *resourceapi.DeviceClaim) {
			d.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "k", Operator: resourceapi.DeviceTolerationOpEqual, Value: "v", Effect: resourceapi.DeviceTaintEffectNoExecute}}
		},
		"without constraints[0]: matchAttribute d/m":    func(d *resourceapi.DeviceClaim) { d.Constraints = d.Constraints[1:] },
		"without constraints[1]: distinctAttribute d/n": func(d *resourceapi.DeviceClaim) { d.Constraints = d.Constraints[:1] },
		"request r: without selectors[0]": func(d *resourceapi.DeviceClaim) {
			d.Requests[0].Exactly.Selectors = d.Requests[0].Exactly.Selectors[1:]
		},
		"request r: without selectors[1]": func(d *resourceapi.DeviceClaim) {
			d.Requests[0].Exactly.Selectors = d.Requests[0].Exactly.Selectors[:1]
		},
	} {
		want := spec.Devices.DeepCopy()
		apply(want)
		if diff := cmp.Diff(want, made[text]); diff != "" {
			t.Errorf("%s: want -, got +\n%s", text, diff)
		}
	}
}

func TestFixIsOneLine(t *testing.T) {
	if got, want := fmt.Sprint(&Fix{Change: "request r: count 1 instead of 2", Node: "n"}), "request r: count 1 instead of 2: then it can be placed on node n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
