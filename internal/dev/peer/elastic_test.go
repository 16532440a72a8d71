// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/peer"
)

// An elastic count of the first request means the list of alternatives that it stands for: upstream, which is asked
// for the list, picks the same devices. For a later request upstream does not take other devices before.
func TestElasticAgreesWithUpstream(t *testing.T) {
	const cases, more = 400, 2
	dray, upstream := peer.Dray(), peer.Upstream()
	compared, extra := 0, 0
	for seed := range uint64(cases) {
		elastic := clustergen.Generate(seed, clustergen.Default)
		if !elastic.Features.PrioritizedList {
			continue
		}
		listed := elastic.DeepCopy()
		if !stretch(t, elastic, listed, more) {
			continue
		}
		got, want := dray(t.Context(), elastic), upstream(t.Context(), listed)
		if got.Err != nil || want.Err != nil {
			if (got.Err == nil) != (want.Err == nil) {
				t.Errorf("seed %d: error %v, upstream %v", seed, got.Err, want.Err)
			}
			continue
		}
		if devices(got) != devices(want) {
			t.Errorf("seed %d: got\n%s\nupstream has\n%s", seed, devices(got), devices(want))
		}
		if compared++; got.Results != nil {
			exact := elastic.DeepCopy()
			for _, claim := range exact.Claims {
				claim.Annotations = nil
			}
			if fewer := dray(t.Context(), exact); fewer.Results != nil && devices(fewer) != devices(got) {
				extra++
			}
		}
	}
	t.Logf("%d cases compared, %d with more devices than must be", compared, extra)
	if compared < cases/4 || extra < cases/20 {
		t.Error("the cases are too easy")
	}
}

// stretch has the first request take up to some more devices, in one case by an extension and in the other by
// alternatives. It is false if it is not one for a number of devices.
func stretch(t *testing.T, elastic, listed *alloctest.Case, more int64) (some bool) {
	t.Helper()
	for i, claim := range elastic.Claims[:min(1, len(elastic.Claims))] {
		asked := extension.Claim{Requests: make(map[string]extension.Request)}
		for r := range claim.Spec.Devices.Requests[:min(1, len(claim.Spec.Devices.Requests))] {
			request := &claim.Spec.Devices.Requests[r]
			exactly := request.Exactly
			if exactly == nil || exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount || exactly.AdminAccess != nil {
				continue
			}
			asked.Requests[request.Name], some = extension.Request{UpTo: exactly.Count + more}, true
			other := &listed.Claims[i].Spec.Devices.Requests[r]
			other.Exactly = nil
			for n := exactly.Count + more; n >= exactly.Count; n-- {
				other.FirstAvailable = append(other.FirstAvailable, resourceapi.DeviceSubRequest{
					Name: fmt.Sprintf("n%d", n), DeviceClassName: exactly.DeviceClassName, Selectors: exactly.Selectors,
					AllocationMode: exactly.AllocationMode, Count: n, Tolerations: exactly.Tolerations,
					Capacity: exactly.Capacity, DerivedAttributes: exactly.DerivedAttributes,
				})
			}
		}
		if err := asked.Annotate(claim); err != nil {
			t.Fatal(err)
		}
	}
	return some
}

// devices lists the devices of an outcome by claim.
func devices(o alloctest.Outcome) string {
	text := ""
	for i := range o.Results {
		for _, r := range o.Results[i].Devices.Results {
			text += fmt.Sprintf("claim %d: %s/%s/%s\n", i, r.Driver, r.Pool, r.Device)
		}
	}
	return text
}
