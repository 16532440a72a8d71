// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// The nearest miss names what would have to change least.
func TestNearestMiss(t *testing.T) {
	rootless := gpus("a", 2, "H100")
	for i := range rootless.Spec.Devices {
		delete(rootless.Spec.Devices[i].Attributes, "root")
	}
	selects := claim("c", 1)
	selects.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "A100"`}},
	}
	mixed := gpus("a", 4, "H100")
	mixed.Spec.Devices[3].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr.To("A100")}
	mixed.Spec.Devices[3].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	withTaints := allocator.Options{Features: allocator.AllFeatures()}
	for _, test := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		slice *resourceapi.ResourceSlice
		want  string
	}{
		{
			"no candidate has the attribute", sameRoot(claim("c", 1)), rootless,
			"none of the candidates for request r0 has the attribute gpu.example.com/root",
		},
		{
			"too few agree", sameRoot(claim("c", 3)), gpus("a", 4, "H100"),
			"3 candidates must agree in gpu.example.com/root, at most 2 do",
		},
		{
			"too many values", atMost(2, claim("c", 5)), gpus("a", 6, "H100"),
			"5 candidates must have no more than 2 values of gpu.example.com/root, and no more than 4 have",
		},
		{
			"one reason holds all back", selects, gpus("a", 2, "H100"),
			`2 more devices would serve request r0 but for one reason: rejected by selector 0: device.attributes["gpu.example.com"].model == "A100"`,
		},
		{
			"what is selected stays", selects, mixed,
			`1 more device would serve request r0 but for one reason: tainted broken:NoSchedule`,
		},
		{"nothing is near", claim("c", 3), gpus("a", 2, "H100"), ""},
	} {
		more, err := extension.Of(test.claim)
		if err != nil {
			t.Fatal(err)
		}
		problem, err := allocator.New(withTaints).CompileExtended([]*resourceapi.ResourceClaim{test.claim}, []extension.Claim{more}, allocator.ClassMap(gpuClass))
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := problem.Allocate(context.Background(), pools.NewState(pools.Build(withTaints.Features.PoolGates(), []*resourceapi.ResourceSlice{test.slice})), node("a"))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		no, ok := outcome.(*allocator.Unsatisfiable)
		if !ok {
			t.Fatalf("%s: %v", test.name, outcome)
		}
		if got := no.Explain().NearestMiss; got != test.want {
			t.Errorf("%s: nearest miss %q, want %q", test.name, got, test.want)
		}
	}
}

// atMost limits how many roots the devices of a claim have.
func atMost(n int64, c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	limit := extension.DistinctLimit{Attribute: "gpu.example.com/root", Most: n}
	if err := (extension.Claim{MaxDistinct: []extension.DistinctLimit{limit}}).Annotate(c); err != nil {
		panic(err)
	}
	return c
}

// A sentence names a few of many requests, and equal constraints once. The items of the core have all.
func TestSummariesAreShort(t *testing.T) {
	uneven := gpus("a", 6, "H100")
	for i := range uneven.Spec.Devices {
		uneven.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint(i / 3))}
	}
	pairs := claim("c", 1, 1, 1, 1, 1, 1)
	for i := range 3 {
		pairs.Spec.Devices.Constraints = append(pairs.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
			MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/root")), Requests: []string{fmt.Sprint("r", 2*i), fmt.Sprint("r", 2*i+1)},
		})
	}
	const six = "request r0 (1 device, %[1]d candidates), request r1 (1 device, %[1]d candidates), request r2 (1 device, %[1]d candidates), " +
		"request r3 (1 device, %[1]d candidates), request r4 (1 device, %[1]d candidates), request r5 (1 device, %[1]d candidates)"
	for _, test := range []struct {
		claim *resourceapi.ResourceClaim
		slice *resourceapi.ResourceSlice
		want  string
		items int
	}{
		{pairs, uneven, "node a: " + fmt.Sprintf(six, 6) + " and matchAttribute gpu.example.com/root (3 times) are in conflict", 9},
		{claim("c", 1, 1, 1, 1, 1, 1, 1, 1), gpus("a", 7, "H100"), "node a: " + fmt.Sprintf(six, 7) + " and 2 more requests are in conflict", 8},
	} {
		outcome := allocate(t, compile(allocator.Options{}, test.claim), clusterOf(test.slice), node("a"))
		no, ok := outcome.(*allocator.Unsatisfiable)
		if !ok {
			t.Fatal(outcome)
		}
		if e := no.Explain(); e.Summary != test.want || len(e.Core) != test.items {
			t.Errorf("%d items, %s\nwant %d, %s", len(e.Core), e.Summary, test.items, test.want)
		}
	}
}
