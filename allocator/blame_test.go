// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// Errors name what is wrong, as it was written: a count, an expression, and no device that happens to be looked at.
func TestErrorsNameWhatIsWrong(t *testing.T) {
	state := clusterOf(gpus("here", 2, "x")).State()
	broken, derived := claim("c", 1), claim("c", 2)
	broken.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "device.model =="}}}
	attribute := resourceapi.FullyQualifiedName("gpu.example.com/half")
	derived.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
	derived.Spec.Devices.Requests[0].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: attribute, Expression: "device.model =="}}
	for _, test := range []struct {
		claim *resourceapi.ResourceClaim
		state *pools.State
		want  string
	}{
		{claim("c", 1<<40), state, "claim default/c: request r0: asks for 1099511627776 devices, with which the claim would have 1099511627776, more than the 32 that it can hold"},
		{claim("c", 2, 1<<40), state, "claim default/c: request r1: asks for 1099511627776 devices, with which the claim would have 1099511627778,"},
		{claim("c", 1<<62, 1<<62, 1<<62), state, "claim default/c: request r0: asks for 4611686018427387904 devices"},
		{claim("c", 1<<31-1), state, "asks for 2147483647 devices"},
		{broken, state, "claim default/c: request r0: selector 0: CEL expression `device.model ==`"},
		{derived, state, "claim default/c: request r0: derived attribute gpu.example.com/half: "},
		{claim("c", 1), nil, "state is nil"},
		{claim("c", 1), new(pools.State), "state is the zero value: want one of pools.NewState"},
	} {
		outcome, err := compile(allocator.Options{}, test.claim).Allocate(t.Context(), test.state, node("here"))
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "device gpu.example.com") {
			t.Errorf("got %v, %v; want %s", outcome, err, test.want)
		}
	}
}

// A device whose capacity exceeds the supported range cannot be allocated, and the explanation names it.
func TestCapacityOutOfRangeIsNamedOnItsDevice(t *testing.T) {
	slice := gpus("here", 2, "x")
	for i, value := range []string{"1e300", "1e300"} {
		slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(value)}}
	}
	asks := claim("c", 1)
	asks.Spec.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1")}}
	outcome := outcomeHere(t, compile(allocator.Options{}, asks), clusterOf(slice).State())
	none, ok := outcome.(*allocator.Unsatisfiable)
	if !ok {
		t.Fatalf("got %v", outcome)
	}
	if text := none.Explain().Summary; !strings.Contains(text, "capacity memory: a value of the device is out of range") {
		t.Errorf("got %s", text)
	}
	slice.Spec.Devices[1].Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("4")}
	found, ok := outcomeHere(t, compile(allocator.Options{}, asks), clusterOf(slice.DeepCopy()).State()).(*allocator.Assignment)
	if !ok || found.Results()[0].Devices.Results[0].Device != "gpu-1" {
		t.Errorf("got %v", found)
	}
}
