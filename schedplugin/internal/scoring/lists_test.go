// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scoring

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// either is a claim with a prioritized list: for so many devices, or else fewer.
func either(name string, counts ...int64) *resourceapi.ResourceClaim {
	claim := claimFor(name, "true", 1)
	request := &claim.Spec.Devices.Requests[0]
	request.Exactly = nil
	for i, count := range counts {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("sub-", i), DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		})
	}
	return claim
}

// both is one claim for what two ask for.
func both(claim, other *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	request := other.Spec.Devices.Requests[0]
	request.Name = "s"
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	return claim
}

// given is a claim that got devices already, for one alternative of its list.
func given(claim *resourceapi.ResourceClaim, request string) *claimstate.Claim {
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: request}}}}
	return &claimstate.Claim{Object: claim}
}

// TestLists: the first alternative of a list is worth 8, each that follows one less. What was
// allocated before counts like what is assigned now.
func TestLists(t *testing.T) {
	c := newCluster(rand.New(rand.NewPCG(1, 1)))
	slice := sliceOf("a")
	slice.Spec.Pool.ResourceSliceCount = 1
	slice.Spec.Devices = []resourceapi.Device{{Name: "0"}, {Name: "1"}, {Name: "2"}}
	free := pools.NewState(pools.Build(allocator.AllFeatures().PoolGates(), []*resourceapi.ResourceSlice{slice}))
	open := func(claim *resourceapi.ResourceClaim) *claimstate.Claim { return &claimstate.Claim{Object: claim} }
	for name, test := range map[string]struct {
		known, assigned []*claimstate.Claim
		want            string
	}{
		"nothing":                {nil, nil, "0 0"},
		"no list":                {nil, []*claimstate.Claim{open(claimFor("x", "true", 1))}, "0 0"},
		"the first":              {nil, []*claimstate.Claim{open(either("x", 3, 1))}, "8 8"},
		"the third":              {nil, []*claimstate.Claim{open(either("x", 5, 4, 2))}, "6 8"},
		"two lists":              {nil, []*claimstate.Claim{open(either("x", 2)), open(either("y", 2, 1))}, "15 16"},
		"two lists of a claim":   {nil, []*claimstate.Claim{open(both(either("x", 2), either("y", 2, 1)))}, "15 16"},
		"the second before":      {[]*claimstate.Claim{given(either("z", 1, 1), "r/sub-1")}, nil, "7 8"},
		"before, and one now":    {[]*claimstate.Claim{given(either("z", 1, 1), "r/sub-1")}, []*claimstate.Claim{open(either("x", 4, 1))}, "14 16"},
		"before, without a list": {[]*claimstate.Claim{given(claimFor("z", "true", 1), "r")}, []*claimstate.Claim{open(either("x", 1))}, "8 8"},
	} {
		var assignment *allocator.Assignment
		var objects []*resourceapi.ResourceClaim
		for _, claim := range test.assigned {
			objects = append(objects, claim.Object)
		}
		if len(objects) > 0 {
			if assignment = c.assign(t, free, objects...); assignment == nil {
				t.Fatalf("%s: the claims get no devices", name)
			}
		}
		if got := fmt.Sprint(Lists(slices.Concat(test.known, test.assigned), test.assigned, assignment)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestPrioritizes(t *testing.T) {
	plain, list := &claimstate.Claim{Object: claimFor("x", "true", 1)}, &claimstate.Claim{Object: either("y", 1)}
	if Prioritizes(nil) || Prioritizes([]*claimstate.Claim{plain}) || !Prioritizes([]*claimstate.Claim{plain, list}) {
		t.Error("claims with a prioritized list are not told from those without")
	}
}
