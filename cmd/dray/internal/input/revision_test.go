// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"strings"
	"testing"
)

// The objects of the published files of the prototype, in the fields that tell revisions apart, with the files that
// have them and what is said of each. "next" is the folder k8srm-prototype/testdata, "last" dra-evolution/testdata,
// which has files of "next", too; files are without pod- and .yaml.
var published = []struct{ object, files, want string }{
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceClass, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}}}`, "next: classes",
		"DeviceClass x: spec.selector: it is of the next revision of the prototype, which dray does not read: in its place is spec.deviceType, by which claims may ask instead of a class"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceClass, metadata: {name: x}, spec: {definition: {driver: a.example.com}}}`, "the types of next", "spec.definition: it is of the next revision"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceClass, metadata: {name: x, labels: {device-type: gpu}}, spec: {driver: a.example.com}}`, "next: classes",
		"DeviceClass x: spec.deviceType: required; classes of the next revision of the prototype, which dray does not read, have labels in its place"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceClaim, metadata: {name: x}, spec: {devices: [{name: a, allOf: [{class: c}]}]}}`,
		"next: multi-net-2 to -8, one-container-gpu-priority-list, -gpu-priority-list-one-vf, -one-gpu-one-vf, -partial-gpu, -split-allocation-gpus, -shared-split-allocation-gpus, -two-gpus-0 to -2, " +
			"two-containers-two-gpus-1 and -2, two-pods-one-gpu-0 and -1; last: multi-net-2 to -8, one-container-gpu-priority-list, -gpu-priority-list-one-vf, -partial-gpu, -split-allocation-gpus",
		"DeviceClaim x: spec.devices: it is of the next revision of the prototype, which dray does not read: in its place is spec.claims"},
	{`{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, devices: [{name: a}]}], deviceClaims: {devices: [{name: a, class: c}]}}}`,
		"all pods of next; last: multi-net-0 to -8 and those with a DeviceClaim",
		"Pod x: spec.deviceClaims: it is of another revision of the prototype, which dray does not read: in its place is spec.resourceClaims, with a DeviceClaim as resourceClaimName"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {driver: a.example.com, sharedResources: [{name: a, capacity: "2"}], devices: [{name: d}]}}`,
		"next: pools-one-node-sriov-0 and -1, pools-two-nodes-one-dgxa100; last: pools-one-node-sriov-1", "DevicePool x: spec.sharedResources: it is of the next revision of the prototype, which dray does not read: in its place is spec.resources"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {driver: a.example.com, devices: [{name: d}, {name: e, claimResourcesProvided: []}]}}`, "", "spec.devices[].claimResourcesProvided: it is of the next revision"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {driver: a.example.com, devices: [{name: d, sharedResourcesConsumed: {a: "1"}}]}}`, "", "spec.devices[].sharedResourcesConsumed: it is of the next revision"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceDriver, metadata: {name: x}, deviceTypes: [gpu]}`, "drivers of the first revision",
		"DeviceDriver x: kind: it is of an earlier revision of the prototype, which dray does not read: in its place is spec.driver of DevicePool and DeviceClass"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceClaim, metadata: {name: x}, spec: {deviceClass: c}}`, "ref-foozer-single and template-foozer-single of the first revision", "spec.deviceClass: it is of an earlier revision"},
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DeviceClass, metadata: {name: x}, spec: {deviceType: gpu, driver: a.example.com, maxDeviceCount: 1}}`, "classes of the first revision", "spec.maxDeviceCount: it is of an earlier revision"},
	{`{apiVersion: resource.k8s.io/v1alpha2, kind: DeviceClass, metadata: {name: x}, requirements: [{deviceSelector: "true"}]}`, "last: classes",
		"DeviceClass x: requirements: it is of the last revision of the prototype, which dray does not read: in its place is spec.selectors of resource.k8s.io/v1"},
	{`{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClaimTemplate, metadata: {name: x}, spec: {spec: {requests: [{deviceClassName: c}]}}}`,
		"last: one-container-one-gpu, -one-gpu-one-vf, -two-gpus-0 to -2, two-containers-one-gpu, two-containers-two-gpus-0 to -2", "ResourceClaimTemplate x: spec.spec.requests: it is of the last revision"},
	{`{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClaim, metadata: {name: x}, spec: {requests: [{deviceClassName: c}]}}`,
		"last: one-container-shared-split-allocation-gpus, two-pods-one-gpu-0 and -1", "ResourceClaim x: spec.requests: it is of the last revision"},
	{`{apiVersion: resource.k8s.io/v1alpha2, kind: ResourcePool, metadata: {name: x}, spec: {driverName: a.example.com}}`, "last: pools-one-node-sriov-0, pools-two-nodes-dgxa100", "ResourcePool x: kind: it is of the last revision"},
	{`{apiVersion: resource.k8s.io/v1alpha2, kind: DevicePool, metadata: {name: x}, spec: {driverName: a.example.com}}`, "last: pools-one-node-sriov-0", "DevicePool x: kind: it is of the last revision"},
	// Pools without shared resources, and pods without devices, are the same in both.
	{`{apiVersion: devmgmtproto.k8s.io/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {driver: a.example.com, nodeName: node-00, attributes: [{name: vendor, stringValue: a}], devices: [{name: d, attributes: [{name: numa, stringValue: "0"}]}]}}`,
		"next and last: pools-two-nodes-two-simple-gpus", ""},
	{`{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {"a": "\"deviceClaims\""}}, spec: {containers: [{name: c}]}}`, "", ""},
	// Of a version that dray reads, these fields are only unknown.
	{`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x}, spec: {requests: []}}`, "", `unknown field "spec.requests"`},
}

// TestPublishedRevisions: objects of revisions of the prototype that are not read are recognised.
func TestPublishedRevisions(t *testing.T) {
	for _, test := range published {
		_, err := Read([]string{Stdin}, strings.NewReader(test.object), Options{})
		if test.want == "" && err == nil {
			continue
		}
		if test.want == "" || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n(%s): got %v, want %q", test.object, test.files, err, test.want)
		}
		objects, err := Read([]string{Stdin}, strings.NewReader(test.object), Options{Findings: FindingsWarn})
		if err != nil || len(objects.Warnings) == 0 {
			t.Errorf("%s as a warning: %v, %v", test.object, objects, err)
		}
		if _, err := Read([]string{Stdin}, strings.NewReader(test.object), Options{Findings: FindingsIgnore}); err != nil && !strings.Contains(err.Error(), "does not read") {
			t.Errorf("%s when ignored: %v", test.object, err)
		}
	}
}
