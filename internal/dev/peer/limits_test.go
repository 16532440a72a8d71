// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"math/rand/v2"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

// Limits of distinct values hold beside all that v1 has: what is allocated is correct, and nothing is refused that trying
// everything allocates.
func TestLimitsOfValues(t *testing.T) {
	const cases = 3000
	dray := peer.Dray()
	satisfiable, not, kept := 0, 0, 0
	for seed := range uint64(cases) {
		c := clustergen.Generate(seed, clustergen.Pairs)
		without := dray(t.Context(), c)
		if !limit(t, seed, c) {
			continue
		}
		fits, ok := oracle.BruteForce(c)
		if !ok {
			continue
		}
		got := dray(t.Context(), c)
		switch {
		case got.Err != nil: // of what looking comes to first, which trying everything may never see
		case (got.Results != nil) != fits:
			t.Errorf("seed %d: allocated is %v, and trying everything says %v", seed, got.Results != nil, fits)
		case fits:
			satisfiable++
			if err := oracle.Verify(c, got.Results); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if devices(got) == devices(without) {
				kept++
			}
		case without.Results != nil:
			not++
		}
	}
	t.Logf("%d are allocated, %d of them as without limits, %d are not because of the limits", satisfiable, kept, not)
	if satisfiable < cases/20 || satisfiable-kept < cases/100 || not < cases/100 {
		t.Error("the cases are too easy")
	}
}

// limit has claims limit how many values of an attribute they have. It is false if none does.
func limit(t *testing.T, seed uint64, c *alloctest.Case) (some bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for _, claim := range c.Claims {
		requests := claim.Spec.Devices.Requests
		if r.IntN(3) == 0 || len(requests) == 0 {
			continue
		}
		asked := extension.DistinctLimit{Attribute: resourceapi.FullyQualifiedName(attributeOf(c, r)), Most: 1 + r.Int64N(2)}
		if asked.Attribute == "" {
			continue
		}
		if r.IntN(2) == 0 {
			asked.Requests = []string{requests[r.IntN(len(requests))].Name}
		}
		if err := (extension.Claim{MaxDistinct: []extension.DistinctLimit{asked}}).Annotate(claim); err != nil {
			t.Fatal(err)
		}
		some = true
	}
	return some
}

// attributeOf is the name of an attribute of some device, empty if the one that is looked at has none.
func attributeOf(c *alloctest.Case, r *rand.Rand) string {
	if len(c.Slices) == 0 {
		return ""
	}
	slice := c.Slices[r.IntN(len(c.Slices))]
	for _, device := range slice.Spec.Devices {
		for _, id := range []resourceapi.QualifiedName{"a", "b", "c"} {
			if _, found := device.Attributes[id]; found && r.IntN(2) == 0 {
				return slice.Spec.Driver + "/" + string(id)
			}
		}
	}
	return ""
}
