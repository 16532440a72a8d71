// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// v1 allocates the devices of a request before the alternative of the next one: a limit is alternatives in the first
// claim only, and elsewhere a reason.
func TestLimitsOfLaterClaims(t *testing.T) {
	two := map[string]resource.Quantity{v1alpha1.ResourceCount: resource.MustParse("2")}
	class := &v1alpha1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"}, Spec: v1alpha1.DeviceClassSpec{Driver: "nic.example.com", DeviceType: "nic"}}
	exact, elastic := v1alpha1.DeviceClaimInstance{}, v1alpha1.DeviceClaimInstance{}
	exact.DeviceClass, elastic.DeviceClass, elastic.Limits = &class.Name, &class.Name, two
	for _, test := range []struct {
		claims []v1alpha1.DeviceClaimInstance
		want   string
	}{
		{[]v1alpha1.DeviceClaimInstance{elastic, exact}, ""},
		{[]v1alpha1.DeviceClaimInstance{exact, elastic}, "spec.claims[1].limits[count]"},
		{[]v1alpha1.DeviceClaimInstance{elastic, elastic}, "spec.claims[1].limits[count]"},
	} {
		claim := &v1alpha1.DeviceClaim{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.DeviceClaimSpec{Claims: test.claims}}
		_, reasons := translate.ToV1(translate.Prototype{Classes: []*v1alpha1.DeviceClass{class}, Claims: []*v1alpha1.DeviceClaim{claim}})
		var got string
		for _, reason := range reasons {
			got += reason.Field
		}
		if got != test.want {
			t.Errorf("got %v, want %q", reasons, test.want)
		}
	}
}

// A name that v1 does not allow gets an allowed one for the allocator. An attribute that claims compare across drivers gets one name.
func TestNamesBeyondV1(t *testing.T) {
	pool := func(driver, name string) *v1alpha1.DevicePool {
		text := "0"
		p := &v1alpha1.DevicePool{ObjectMeta: metav1.ObjectMeta{Name: "p-" + driver}}
		p.Spec = v1alpha1.DevicePoolSpec{Driver: driver, Devices: []v1alpha1.Device{{Name: "d"}}, Attributes: []v1alpha1.Attribute{{Name: name, StringValue: &text}}}
		return p
	}
	class := func(driver string) *v1alpha1.DeviceClass {
		return &v1alpha1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: v1alpha1.DeviceClassSpec{Driver: driver, DeviceType: "any"}}
	}
	names := []string{"a.example.com", "b.example.com"}
	claim := &v1alpha1.DeviceClaim{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	claim.Spec.Claims = make([]v1alpha1.DeviceClaimInstance, 2)
	claim.Spec.Claims[0].DeviceClass, claim.Spec.Claims[1].DeviceClass = &names[0], &names[1]
	for name, want := range map[string]string{
		"numa": "", "pcie-root": "", "a.b": "", "pcie root": "want at most 63", "-x": "want at most 63", "X_/y": "want a DNS name",
		"devmgmtproto.k8s.io/numa": "", strings.Repeat("a", 63): "", strings.Repeat("a", 64): "want at most 63",
	} {
		claim.Spec.MatchAttributes = []string{name}
		out, reasons := translate.ToExtended(translate.Prototype{
			Pools: []*v1alpha1.DevicePool{pool(names[0], name), pool(names[1], name)}, Classes: []*v1alpha1.DeviceClass{class(names[0]), class(names[1])}, Claims: []*v1alpha1.DeviceClaim{claim},
		})
		switch {
		case want != "":
			if len(reasons) == 0 || !strings.Contains(strings.ReplaceAll(reasons[0].Text, "v1 wants", "want"), want) {
				t.Errorf("%s: %v, want %s", name, reasons, want)
			}
		case len(reasons) > 0:
			t.Errorf("%s: %v", name, reasons)
		default:
			matched := resourceapi.QualifiedName(*out.Claims[0].Spec.Devices.Constraints[0].MatchAttribute)
			for _, slice := range out.Slices {
				if _, found := slice.Spec.Devices[0].Attributes[matched]; !found {
					t.Errorf("%s: device of %s has no %s", name, slice.Spec.Driver, matched)
				}
			}
		}
	}
	both := pool(names[0], "numa")
	both.Spec.Attributes = append(both.Spec.Attributes, pool(names[0], "devmgmtproto.k8s.io/numa").Spec.Attributes...)
	claim.Spec.MatchAttributes = []string{"numa"}
	_, reasons := translate.ToExtended(translate.Prototype{
		Pools: []*v1alpha1.DevicePool{both}, Classes: []*v1alpha1.DeviceClass{class(names[0]), class(names[1])}, Claims: []*v1alpha1.DeviceClaim{claim},
	})
	if len(reasons) != 1 || reasons[0].Field != "spec.devices[0]" {
		t.Errorf("an attribute of the name that stands for all drivers: %v", reasons)
	}
}
