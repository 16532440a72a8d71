// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
)

// An error about the annotation of a PodGroup names the field.
func TestGroupOf(t *testing.T) {
	all := resourceapi.DeviceAllocationModeAll
	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{}},
		{Name: "nic", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "fast"}, {Name: "any", AllocationMode: all}}},
	}
	for _, test := range []struct{ text, want string }{
		{`{"constraints": [{"matchAttribute": "a.example.com/rail", "requests": ["gpu", "nic/fast"]}]}`, ""},
		{`{"maxDistinct": [{"attribute": "a.example.com/rail", "most": 2, "requests": ["gpu"]}], "preferred": [{"matchAttribute": "a.example.com/x", "requests": ["gpu"]}]}`, ""},
		{`{}`, ""},
		{``, "unexpected end of JSON input"},
		{`{} {}`, "invalid character '{' after top-level value"},
		{`{"constraint": []}`, `unknown field "constraint"`},
		{`{"Constraints": []}`, `unknown field "Constraints"`},
		{`{"constraints": [], "constraints": []}`, `duplicate field "constraints"`},
		{`{"constraints": [{"matchAttribute": 1}]}`, "constraints.matchAttribute"},
		{`{"constraints": [{"matchAttribute": "a.example.com/rail", "most": 1}]}`, `unknown field "constraints[0].most"`},
		{`{"constraints": [{"matchAttribute": "a/b/c"}]}`, `constraints[0].matchAttribute: "a/b/c": want domain/name`},
		{`{"constraints": [{"matchAttribute": "/b"}]}`, `constraints[0].matchAttribute: "/b": want domain/name`},
		{`{"constraints": [{"matchAttribute": "a b/c"}]}`, `constraints[0].matchAttribute: "a b/c": want domain/name`},
		{`{"constraints": [{"matchAttribute": "a/` + strings.Repeat("b", 33) + `"}]}`, "want domain/name"},
		{`{"maxDistinct": [{"attribute": "a/b", "most": 33}]}`, "maxDistinct[0].most: 33: want 1 to 32"},
		{`{"maxDistinct": [{"attribute": "a/b", "most": 32}]}`, `request "nic/any" asks for all devices`},
		{`{"constraints": [{}]}`, `constraints[0].matchAttribute: "": want domain/name`},
		{`{"preferred": [{"matchAttribute": "a/b", "requests": ["gpu"]}, {"matchAttribute": "rail"}]}`, `preferred[1].matchAttribute: "rail": want domain/name`},
		{`{"maxDistinct": [{"attribute": "a/b"}]}`, "maxDistinct[0].most: 0: want 1 to 32"},
		{`{"constraints": [{"matchAttribute": "a/b", "requests": ["gpu", "fpga"]}]}`, `constraints[0].requests[1]: no pod of the group has a request "fpga"`},
		{`{"constraints": [{"matchAttribute": "a/b", "requests": ["nic/slow"]}]}`, `constraints[0].requests[0]: no pod of the group has a request "nic/slow"`},
		{`{"constraints": [{"matchAttribute": "a/b"}]}`, `constraints[0]: request "nic/any" asks for all devices`},
		{`{"constraints": [` + strings.Repeat(`{"matchAttribute": "a/b"}, `, 32) + `{"matchAttribute": "a/b"}]}`, "33 constraints, maxDistinct and preferred together: at most 32"},
		{`{"constraints": [{"matchAttribute": "a/b", "requests": ["gpu"` + strings.Repeat(`, "gpu"`, 32) + `]}]}`, "constraints[0].requests: 33 names: at most 32"},
	} {
		group, err := extension.GroupOf(map[string]string{extension.Annotation: test.text})
		if err == nil {
			err = group.Check([]*resourceapi.ResourceClaim{claim})
		}
		if test.want == "" && err != nil {
			t.Errorf("%s: %v", test.text, err)
		} else if test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "annotation "+extension.Annotation+": ") || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
	if group, err := extension.GroupOf(nil); err != nil || !group.IsZero() {
		t.Errorf("without annotation: %v, %v", group, err)
	}
}
