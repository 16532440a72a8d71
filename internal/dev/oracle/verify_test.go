// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

// eachAnswer runs upstream on generated cases without documented differences.
func eachAnswer(t *testing.T, cases int, profile clustergen.Profile, visit func(*alloctest.Case, alloctest.Outcome)) {
	t.Helper()
	upstream := peer.Upstream()
	for seed := range uint64(cases) {
		c := clustergen.Generate(seed, profile)
		if clustergen.Decision(c) != "" {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		outcome := upstream(ctx, c)
		if ctx.Err() == nil {
			visit(c, outcome)
		}
		cancel()
	}
}

func TestVerifyAcceptsUpstream(t *testing.T) {
	for _, profile := range []clustergen.Profile{clustergen.Default, clustergen.Hard} {
		t.Run(string(profile), func(t *testing.T) {
			verified := 0
			eachAnswer(t, 1000, profile, func(c *alloctest.Case, outcome alloctest.Outcome) {
				if outcome.Results == nil {
					return
				}
				verified++
				if err := oracle.Verify(c, outcome.Results); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			})
			if verified < 100 {
				t.Errorf("only %d results verified", verified)
			}
		})
	}
}

func TestBruteForceAgreesWithUpstream(t *testing.T) {
	decided := map[bool]int{}
	eachAnswer(t, 1000, clustergen.Default, func(c *alloctest.Case, outcome alloctest.Outcome) {
		if outcome.Err != nil && !outcome.NodeOnly {
			return
		}
		satisfiable, ok := oracle.BruteForce(c)
		if !ok {
			return
		}
		decided[satisfiable]++
		if satisfiable != (outcome.Results != nil) {
			t.Errorf("%s: brute force says satisfiable=%v, upstream %v", c.Name, satisfiable, outcome.Results != nil)
		}
	})
	if decided[true] < 200 || decided[false] < 200 {
		t.Errorf("decided too few cases: %d satisfiable, %d unsatisfiable", decided[true], decided[false])
	}
}

func TestVerifyWantsOneResultPerClaim(t *testing.T) {
	c := clustergen.Generate(1, clustergen.Default)
	if err := oracle.Verify(c, make([]resourceapi.AllocationResult, len(c.Claims)+1)); err == nil {
		t.Error("accepted a result too many")
	}
}
