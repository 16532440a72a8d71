// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"errors"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
)

// classes are DeviceClasses by name.
type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, errors.New("there is no class " + name)
}

// TestCompiledClaims: what is compiled is kept for the same claims in the same order, and for as long as their classes stay.
func TestCompiledClaims(t *testing.T) {
	class := func(expression string) *resourceapi.DeviceClass {
		c := &resourceapi.DeviceClass{}
		c.Name = "gpu"
		c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		return c
	}
	claim := func(uid string) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{}
		c.Namespace, c.Name, c.UID = "ns", uid, types.UID(uid)
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		}}}
		return c
	}
	core, known := allocator.New(allocator.Options{Features: allocator.AllFeatures()}), &problems{}
	of := func(classes classes, uids ...string) *allocator.Problem {
		t.Helper()
		var claims []*resourceapi.ResourceClaim
		for _, uid := range uids {
			claims = append(claims, claim(uid))
		}
		problem, err := known.of(core, claims, classes)
		if err != nil {
			t.Fatal(err)
		}
		return problem
	}
	before := classes{"gpu": class("true"), "other": class("true")}
	first := of(before, "a", "b")
	if of(before, "a", "b") != first {
		t.Error("the same claims are compiled twice")
	}
	for _, uids := range [][]string{{"a"}, {"a", "c"}, {"b", "a"}, {"a", "b", "c"}} {
		if of(before, uids...) == first {
			t.Errorf("claims %v are taken for others", uids)
		}
	}
	if of(classes{"gpu": before["gpu"], "other": class("false")}, "a", "b") != first {
		t.Error("another class that changes has them compiled again")
	}
	if of(classes{"gpu": class("false")}, "a", "b") == first {
		t.Error("their class has changed, and they are as before")
	}
	if _, err := known.of(core, []*resourceapi.ResourceClaim{claim("a"), claim("b")}, classes{}); err == nil {
		t.Error("their class is gone, and they are as before")
	}
}
