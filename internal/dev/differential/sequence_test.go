// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/differential"
	"github.com/dray-project/dray/internal/dev/peer"
)

func sequences(ours func() map[string]alloctest.Allocator, cases int) *differential.Sequences {
	return &differential.Sequences{
		Ours: ours, Peer: peer.Upstream(), OurLimit: time.Minute, PeerLimit: time.Second,
		Cases: cases, Turns: 10, Seed: 1, Profile: clustergen.Pairs, Workers: 2,
	}
}

func TestKeptAllocatorAgreesWithUpstream(t *testing.T) {
	facade := peer.DrayStructured()
	report := sequences(func() map[string]alloctest.Allocator {
		return map[string]alloctest.Allocator{"allocator": peer.Kept(), "structured": facade}
	}, 2000).Do(t.Context())
	for _, d := range report.Disagreed {
		t.Errorf("%s: %s", d.Case.Name, d.Verdict.Disagreement)
	}
	if report.Cases != 2000 || report.Classes[differential.Satisfiable] < 500 || report.Classes[differential.Unsatisfiable] < 500 {
		t.Errorf("turns do not bite: %s", report.Summary())
	}
}

// stale answers with upstream's allocator from a cluster that it does not follow.
func stale(forget func(last, c *alloctest.Case)) func() map[string]alloctest.Allocator {
	upstream := peer.Upstream()
	return func() map[string]alloctest.Allocator {
		var last *alloctest.Case
		return map[string]alloctest.Allocator{"stale": func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
			seen := *c
			if last != nil {
				forget(last, &seen)
			}
			last = &seen
			return upstream(ctx, &seen)
		}}
	}
}

// Each way to remember too long has to be noticed, and to be a scenario of few turns.
func TestSequencesSeeStaleAnswers(t *testing.T) {
	for name, forget := range map[string]func(last, c *alloctest.Case){
		"slices": func(last, c *alloctest.Case) { c.Slices = last.Slices },
		"claims": func(last, c *alloctest.Case) { c.Allocated = last.Allocated },
		"releases": func(last, c *alloctest.Case) {
			c.Allocated = append(append([]*resourceapi.ResourceClaim(nil), last.Allocated...), c.Allocated...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := sequences(stale(forget), 400)
			report := q.Do(t.Context())
			if report.Disagreements == 0 {
				t.Fatalf("not noticed: %s", report.Summary())
			}
			reduced := q.Reduce(t.Context(), report.Disagreed[0].Turns)
			if len(reduced.Turns) > 3 {
				t.Errorf("%d turns are left", len(reduced.Turns))
			}
			text, err := reduced.Scenario()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := alloctest.Parse("reduced", text); err != nil || !strings.HasPrefix(text, "# stale: ") {
				t.Errorf("error %v in\n%s", err, text)
			}
		})
	}
}
