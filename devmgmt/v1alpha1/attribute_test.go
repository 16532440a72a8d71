// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

func amount(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

func TestEqual(t *testing.T) {
	version := func(text string) *v1alpha1.SemVer { return ptr.To(v1alpha1.SemVer(text)) }
	for name, c := range map[string]struct {
		a, b         v1alpha1.Attribute
		equal, value bool
	}{
		"same text":          {v1alpha1.Attribute{Name: "a", StringValue: ptr.To("x")}, v1alpha1.Attribute{Name: "a", StringValue: ptr.To("x")}, true, true},
		"other text":         {v1alpha1.Attribute{Name: "a", StringValue: ptr.To("x")}, v1alpha1.Attribute{Name: "a", StringValue: ptr.To("y")}, false, false},
		"other name":         {v1alpha1.Attribute{Name: "a", StringValue: ptr.To("x")}, v1alpha1.Attribute{Name: "b", StringValue: ptr.To("x")}, false, true},
		"same number":        {v1alpha1.Attribute{Name: "a", IntValue: ptr.To(1)}, v1alpha1.Attribute{Name: "a", IntValue: ptr.To(1)}, true, true},
		"other number":       {v1alpha1.Attribute{Name: "a", IntValue: ptr.To(1)}, v1alpha1.Attribute{Name: "a", IntValue: ptr.To(2)}, false, false},
		"number and text":    {v1alpha1.Attribute{Name: "a", IntValue: ptr.To(1)}, v1alpha1.Attribute{Name: "a", StringValue: ptr.To("1")}, false, false},
		"same amount":        {v1alpha1.Attribute{Name: "a", QuantityValue: amount("1Gi")}, v1alpha1.Attribute{Name: "a", QuantityValue: amount("1024Mi")}, true, true},
		"other amount":       {v1alpha1.Attribute{Name: "a", QuantityValue: amount("1Gi")}, v1alpha1.Attribute{Name: "a", QuantityValue: amount("1G")}, false, false},
		"amount and number":  {v1alpha1.Attribute{Name: "a", QuantityValue: amount("1")}, v1alpha1.Attribute{Name: "a", IntValue: ptr.To(1)}, false, false},
		"amount and nothing": {v1alpha1.Attribute{Name: "a", QuantityValue: amount("1")}, v1alpha1.Attribute{Name: "a"}, false, false},
		"same version":       {v1alpha1.Attribute{Name: "a", SemVerValue: version("1.2.3")}, v1alpha1.Attribute{Name: "a", SemVerValue: version("1.2.3")}, true, true},
		"other version":      {v1alpha1.Attribute{Name: "a", SemVerValue: version("1.2.3")}, v1alpha1.Attribute{Name: "a", SemVerValue: version("1.2.3+1")}, false, false},
		"version and text":   {v1alpha1.Attribute{Name: "a", SemVerValue: version("1.2.3")}, v1alpha1.Attribute{Name: "a", StringValue: ptr.To("1.2.3")}, false, false},
	} {
		if got := c.a.Equal(c.b); got != c.equal {
			t.Errorf("%s: Equal is %t", name, got)
		}
		if got := c.a.EqualValue(c.b); got != c.value {
			t.Errorf("%s: EqualValue is %t", name, got)
		}
		if c.a.Equal(c.b) != c.b.Equal(c.a) || c.a.EqualValue(c.b) != c.b.EqualValue(c.a) {
			t.Errorf("%s: the order matters", name)
		}
	}
}

func TestSchemeDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"DevicePool", "DevicePoolList", "DeviceClass", "DeviceClassList", "DeviceClaim", "DeviceClaimList"} {
		if !scheme.Recognizes(v1alpha1.SchemeGroupVersion.WithKind(kind)) {
			t.Errorf("the scheme does not know %s", kind)
		}
	}
	pool := &v1alpha1.DevicePool{Spec: v1alpha1.DevicePoolSpec{
		NodeName:  ptr.To(""),
		Resources: []v1alpha1.ResourceCapacity{{Name: "a"}, {Name: "b", BlockSize: amount("4Ki")}},
		Devices:   []v1alpha1.Device{{Resources: []v1alpha1.ResourceCapacity{{Name: "a"}}}},
	}}
	scheme.Default(pool)
	if pool.Spec.NodeName != nil {
		t.Error("an empty node name is a node")
	}
	for i, got := range []*resource.Quantity{pool.Spec.Resources[0].BlockSize, pool.Spec.Resources[1].BlockSize, pool.Spec.Devices[0].Resources[0].BlockSize} {
		if want := []string{"1", "4Ki", "1"}[i]; got == nil || got.String() != want {
			t.Errorf("block size %d is %v, want %s", i, got, want)
		}
	}
	claim := &v1alpha1.DeviceClaim{Spec: v1alpha1.DeviceClaimSpec{Claims: []v1alpha1.DeviceClaimInstance{
		{},
		{DeviceClaimDetail: v1alpha1.DeviceClaimDetail{Requests: map[string]resource.Quantity{"memory": *amount("1Gi")}}},
		{OneOf: []v1alpha1.DeviceClaimDetail{{}, {Requests: map[string]resource.Quantity{v1alpha1.ResourceCount: *amount("2")}}}},
	}}}
	scheme.Default(claim)
	for i, c := range []struct {
		got  map[string]resource.Quantity
		want string
	}{
		{claim.Spec.Claims[0].Requests, "1"}, {claim.Spec.Claims[1].Requests, ""}, {claim.Spec.Claims[2].Requests, ""},
		{claim.Spec.Claims[2].OneOf[0].Requests, "1"}, {claim.Spec.Claims[2].OneOf[1].Requests, "2"},
	} {
		count, found := c.got[v1alpha1.ResourceCount]
		if found != (c.want != "") || found && count.String() != c.want {
			t.Errorf("claim %d: count %v, want %q", i, c.got, c.want)
		}
	}
	copied := claim.DeepCopyObject().(*v1alpha1.DeviceClaim)
	copied.Spec.Claims[0].Requests["memory"] = *amount("1")
	if len(claim.Spec.Claims[0].Requests) != 1 {
		t.Error("a copy shares memory")
	}
}
