// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prototypes are a pool, a class and a claim of which nothing is wrong, with names that v1 does not have.
const prototypes = `
apiVersion: devmgmtproto.k8s.io/v1alpha1
kind: DevicePool
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  attributes: [{name: link-type, stringValue: nvlink}]
  resources: [{name: memory, capacity: 80Gi}]
  devices:
  - {name: g0, attributes: [{name: model, stringValue: A100}, {name: pcie-root, stringValue: r0}], requests: {memory: 40Gi}}
  - {name: g1, attributes: [{name: model, stringValue: A100}, {name: pcie-root, stringValue: r1}], resources: [{name: band-width, capacity: 10}]}
---
apiVersion: devmgmtproto.k8s.io/v1alpha1
kind: DeviceClass
metadata: {name: gpu}
spec: {driver: gpu.example.com, deviceType: gpu, constraints: 'device["model"] == "A100"'}
---
apiVersion: devmgmtproto.k8s.io/v1alpha1
kind: DeviceClaim
metadata: {name: c, namespace: ml}
spec:
  matchAttributes: [pcie-root]
  claims:
  - {deviceClass: gpu, requests: {count: 1}, constraints: 'device["model"] == "A100"'}
  - oneOf: [{deviceClass: gpu}, {deviceClass: gpu, constraints: 'device["model"] == "H100"'}]
`

// An error of v1 in a translation names the field of the prototype that it was made from.
func TestTranslationsAreValidated(t *testing.T) {
	for in, test := range map[string]struct{ object, want string }{
		"spec.devices[1].attributes[pcie-root].string":                 {"ResourceSlice", "DevicePool gpus: spec.devices[1].attributes[1]: "},
		"spec.devices[0].attributes[link-type]":                        {"ResourceSlice", "DevicePool gpus: spec.attributes[0]: "},
		"spec.devices[1].capacity[band-width].value":                   {"ResourceSlice", "DevicePool gpus: spec.devices[1].resources[0]: "},
		"spec.devices[0].consumesCounters[0]":                          {"ResourceSlice", "DevicePool gpus: spec.devices[0].requests: "},
		"spec.devices[1].name":                                         {"ResourceSlice", "DevicePool gpus: spec.devices[1].name: "},
		"spec.devices[1]":                                              {"ResourceSlice", "DevicePool gpus: spec.devices[1]: "},
		"spec.devices":                                                 {"ResourceSlice", "DevicePool gpus: in resource.k8s.io/v1: spec.devices: "},
		"spec.sharedCounters[0].counters":                              {"ResourceSlice", "DevicePool gpus: spec.resources: "},
		"spec.driver":                                                  {"ResourceSlice", "DevicePool gpus: spec.driver: "},
		"spec.pool.name":                                               {"ResourceSlice", "DevicePool gpus: metadata.name: "},
		"spec.selectors[1].cel.expression":                             {"DeviceClass", "DeviceClass gpu: spec.constraints: "},
		"spec.config[2].opaque.driver":                                 {"DeviceClass", "DeviceClass gpu: spec.configs[2]: "},
		"metadata.name":                                                {"DeviceClass", "DeviceClass gpu: metadata.name: "},
		"spec.devices.requests[0].exactly.selectors[0].cel.expression": {"ResourceClaim", "DeviceClaim ml/c: spec.claims[0].constraints: "},
		"spec.devices.requests[1].firstAvailable[1].deviceClassName":   {"ResourceClaim", "DeviceClaim ml/c: spec.claims[1].oneOf[1].deviceClass: "},
		"spec.devices.requests[1].firstAvailable[0].count":             {"ResourceClaim", "DeviceClaim ml/c: spec.claims[1].oneOf[0].requests[count]: "},
		"spec.devices.requests[0].exactly.capacity.requests[x]":        {"ResourceClaim", "DeviceClaim ml/c: spec.claims[0].requests[x]: "},
		"spec.devices.requests[0].exactly.tolerations":                 {"ResourceClaim", "DeviceClaim ml/c: spec.claims[0]: "},
		"spec.devices.requests":                                        {"ResourceClaim", "DeviceClaim ml/c: spec.claims: "},
		"spec.devices.constraints[0].matchAttribute":                   {"ResourceClaim", "DeviceClaim ml/c: spec.matchAttributes: "},
		"status.allocation.devices.results":                            {"ResourceClaim", "DeviceClaim ml/c: status.allocation.devices.results: "},
	} {
		refuse := func(object runtime.Object) []error {
			kind := ""
			switch object := object.(type) {
			case *resourceapi.ResourceSlice:
				if len(object.Spec.Devices) > 0 || strings.HasPrefix(in, "spec.shared") {
					kind = "ResourceSlice"
				}
			case *resourceapi.DeviceClass:
				kind = "DeviceClass"
			case *resourceapi.ResourceClaim:
				kind = "ResourceClaim"
			}
			if kind != test.object {
				return nil
			}
			return []error{&field.Error{Type: field.ErrorTypeInvalid, Field: in, BadValue: "x", Detail: "no"}}
		}
		_, err := Read([]string{Stdin}, strings.NewReader(prototypes), Options{Validate: refuse})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of a %s: error %v, want %s", in, test.object, err, test.want)
		}
		if objects, err := Read([]string{Stdin}, strings.NewReader(prototypes), Options{Validate: refuse, Findings: FindingsWarn}); err != nil || len(objects.Warnings) == 0 {
			t.Errorf("%s of a %s: with warnings, error %v", in, test.object, err)
		}
	}
	unnamed := func(object runtime.Object) []error {
		if _, isClass := object.(*resourceapi.DeviceClass); isClass {
			return []error{errors.New("no field")}
		}
		return nil
	}
	if _, err := Read([]string{Stdin}, strings.NewReader(prototypes), Options{Validate: unnamed}); err == nil || !strings.Contains(err.Error(), "DeviceClass gpu: no field") {
		t.Errorf("error without a field: %v", err)
	}
}

// Names that v1 does not have are told apart from each other, and from those that are like their stand-ins.
func TestRenamed(t *testing.T) {
	got := renamed(map[resourceapi.QualifiedName]int{"pcie-root": 1, "link-type": 2, "name0": 3, "a.b/ok": 4, "a.b/not-ok": 5})
	seen := make(map[int]bool)
	for name, value := range got {
		seen[value] = isNameOfV1(string(name))
	}
	if len(got) != 5 || len(seen) != 5 || got["name0"] != 3 || got["a.b/ok"] != 4 || !seen[1] || !seen[2] || !seen[5] {
		t.Errorf("renamed to %v", got)
	}
}

// Rules of v1 are applied to what was written: to no names that only the allocator has, and to none that v1 has not.
func TestTranslationsAreValidatedAsWritten(t *testing.T) {
	const two = prototypes + `
---
apiVersion: devmgmtproto.k8s.io/v1alpha1
kind: DevicePool
metadata: {name: nics}
spec: {driver: nic.example.com, nodeName: n1, devices: [{name: n0, attributes: [{name: pcie-root, stringValue: r0}, {name: slot, intValue: 3}]}]}
---
apiVersion: devmgmtproto.k8s.io/v1alpha1
kind: DeviceClass
metadata: {name: nic}
spec: {driver: nic.example.com, deviceType: nic}
---
apiVersion: devmgmtproto.k8s.io/v1alpha1
kind: DeviceClaim
metadata: {name: both, namespace: ml}
spec: {matchAttributes: [pcie-root, slot], claims: [{deviceClass: gpu}, {deviceClass: nic}]}
`
	attributes := make(map[string]int)
	_, err := Read([]string{Stdin}, strings.NewReader(two), Options{Validate: func(object runtime.Object) []error {
		switch object := object.(type) {
		case *resourceapi.ResourceSlice:
			for _, device := range object.Spec.Devices {
				attributes[device.Name] = len(device.Attributes)
				for name := range device.Attributes {
					if !isNameOfV1(string(name)) {
						t.Errorf("device %s: attribute %s", device.Name, name)
					}
				}
			}
		case *resourceapi.ResourceClaim:
			for _, constraint := range object.Spec.Devices.Constraints {
				if !isNameOfV1(string(*constraint.MatchAttribute)) {
					t.Errorf("claim %s: match of %s", object.Name, *constraint.MatchAttribute)
				}
			}
		}
		return nil
	}})
	if err != nil || attributes["g0"] != 3 || attributes["n0"] != 2 {
		t.Errorf("numbers of attributes: %v, want 3 of g0 and 2 of n0; error %v", attributes, err)
	}
}
