// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"reflect"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator/extension"
)

// An annotation that was written is read back, and uses readable words.
func TestAnnotation(t *testing.T) {
	asked := extension.Claim{
		Requests: map[string]extension.Request{"gpus": {
			UpTo: 4, Totals: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("40Gi")},
			Classes: []extension.Class{{DeviceClassName: "other", Selectors: []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: "1 < 2 && 3 > 2"}},
			}}},
		}},
		MatchAcross:     []resourceapi.FullyQualifiedName{"topology.example.com/numa"},
		MatchCapacities: []extension.CapacityMatch{{Capacity: "gpu.example.com/memory", Requests: []string{"gpus"}}},
		MaxDistinct:     []extension.DistinctLimit{{Attribute: "topology.example.com/rack", Most: 2, Requests: []string{"gpus"}}},
		Preferred: []extension.Preference{
			{MatchAttribute: "topology.example.com/rack", Across: true}, {MatchAttribute: "topology.example.com/pcie", Requests: []string{"gpus"}},
		},
	}
	claim := &resourceapi.ResourceClaim{}
	if err := asked.Annotate(claim); err != nil {
		t.Fatal(err)
	}
	text := claim.Annotations[extension.Annotation]
	if !strings.Contains(text, "1 < 2 && 3 > 2") || strings.HasSuffix(text, "\n") {
		t.Errorf("the annotation is %q", text)
	}
	read, err := extension.Of(claim)
	if err != nil {
		t.Fatal(err)
	}
	memory := read.Requests["gpus"].Totals["memory"]
	if memory.Cmp(resource.MustParse("40Gi")) != 0 {
		t.Errorf("memory came back as %s", memory.String())
	}
	delete(asked.Requests["gpus"].Totals, "memory")
	delete(read.Requests["gpus"].Totals, "memory")
	if !reflect.DeepEqual(read, asked) {
		t.Errorf("wrote %+v, read %+v", asked, read)
	}
	if err := (extension.Claim{}).Annotate(claim); err != nil || len(claim.Annotations) > 0 {
		t.Errorf("asking for nothing leaves %v, error %v", claim.Annotations, err)
	}
	if read, err := extension.Of(claim); err != nil || !read.IsZero() {
		t.Errorf("without an annotation, %+v is read, error %v", read, err)
	}
}

// An unknown field or value is an error that names the annotation.
func TestAnnotationIsStrict(t *testing.T) {
	for _, text := range []string{"", "x", `{"upTo": 1}`, `{} {}`, `{"requests": {"a": {"upTo": "1"}}}`, `{"preferred": [{"matchCapacity": "a"}]}`, `{"matchCapacities": ["a"]}`, `{"maxDistinct": [{"attribute": "a/b", "max": 1}]}`, `{"requests": {"a": {"totals": {"m": "1x"}}}}`} {
		claim := &resourceapi.ResourceClaim{}
		claim.Annotations = map[string]string{extension.Annotation: text}
		if _, err := extension.Of(claim); err == nil || !strings.Contains(err.Error(), extension.Annotation) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
