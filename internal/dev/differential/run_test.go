// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/differential"
	"github.com/dray-project/dray/internal/dev/peer"
)

// wrong passes the upstream allocator's answers on after a change.
func wrong(change func(*alloctest.Case, *alloctest.Outcome)) alloctest.Allocator {
	upstream := peer.Upstream()
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		o := upstream(ctx, c)
		change(c, &o)
		return o
	}
}

func comparer(ours alloctest.Allocator) differential.Comparer {
	return differential.Comparer{Ours: ours, Peer: peer.Upstream(), OurLimit: time.Minute, PeerLimit: time.Second}
}

func run(t *testing.T, ours alloctest.Allocator, cases int) *differential.Report {
	t.Helper()
	r := differential.Run{Comparer: comparer(ours), Cases: cases, Seed: 1, Profile: clustergen.Default, Workers: 2}
	return r.Do(t.Context())
}

func TestDrayAgreesWithUpstream(t *testing.T) {
	report := run(t, peer.Dray(), 1000)
	for _, d := range report.Disagreed {
		t.Errorf("%s: %s", d.Case.Name, d.Verdict.Disagreement)
	}
	if report.Cases != 1000 || report.Classes[differential.Satisfiable] < 300 || report.Classes[differential.Unsatisfiable] < 200 {
		t.Errorf("cases do not bite: %s", report.Summary())
	}
}

// Each way to be wrong has to be noticed.
func TestRunSeesWrongAnswers(t *testing.T) {
	for name, change := range map[string]func(*alloctest.Case, *alloctest.Outcome){
		"gives up": func(_ *alloctest.Case, o *alloctest.Outcome) { o.Results = nil },
		"fails":    func(_ *alloctest.Case, o *alloctest.Outcome) { o.Results, o.Err = nil, errors.New("broken") },
		"swallows errors": func(_ *alloctest.Case, o *alloctest.Outcome) {
			o.Err, o.NodeOnly = nil, false
		},
		"blames the node": func(_ *alloctest.Case, o *alloctest.Outcome) { o.NodeOnly = o.Err != nil },
		"forgets the node selector": func(_ *alloctest.Case, o *alloctest.Outcome) {
			for i := range o.Results {
				o.Results[i].NodeSelector = nil
			}
		},
		"renames a device": func(_ *alloctest.Case, o *alloctest.Outcome) {
			for i := range o.Results {
				for j := range o.Results[i].Devices.Results {
					o.Results[i].Devices.Results[j].Device += "x"
				}
			}
		},
		"modifies claims":  func(c *alloctest.Case, _ *alloctest.Outcome) { c.Claims[0].Labels = map[string]string{"x": "y"} },
		"modifies devices": func(c *alloctest.Case, _ *alloctest.Outcome) { c.Slices[0].Spec.Pool.Generation++ },
		"answers late":     func(_ *alloctest.Case, o *alloctest.Outcome) { o.Results, o.Err = nil, context.DeadlineExceeded },
	} {
		t.Run(name, func(t *testing.T) {
			if report := run(t, wrong(change), 200); report.Disagreements == 0 {
				t.Errorf("not noticed: %s", report.Summary())
			}
		})
	}
}

func TestRunSeesAnotherCorrectChoice(t *testing.T) {
	// With devices in the opposite order, first fit finds another solution.
	upstream := peer.Upstream()
	backwards := func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		turned := *c
		turned.Slices = nil
		for _, slice := range c.Slices {
			slice = slice.DeepCopy()
			slice.Spec.Devices = reversed(slice.Spec.Devices)
			turned.Slices = append(turned.Slices, slice)
		}
		return upstream(ctx, &turned)
	}
	report := run(t, backwards, 200)
	for _, d := range report.Disagreed {
		if strings.Contains(d.Verdict.Disagreement, "not correct") {
			t.Errorf("%s: a correct answer is refused: %s", d.Case.Name, d.Verdict.Disagreement)
		}
	}
	if !slices.ContainsFunc(report.Disagreed, func(d differential.Disagreement) bool {
		return strings.HasPrefix(d.Verdict.Disagreement, "the answers differ")
	}) {
		t.Errorf("not noticed: %s", report.Summary())
	}
}

func reversed(devices []resourceapi.Device) []resourceapi.Device {
	var turned []resourceapi.Device
	for i := range devices {
		turned = append(turned, devices[len(devices)-1-i])
	}
	return turned
}

func TestRunSeesPanics(t *testing.T) {
	report := run(t, func(context.Context, *alloctest.Case) alloctest.Outcome { panic("at the disco") }, 20)
	if report.Disagreements == 0 || !strings.Contains(report.Disagreed[0].Verdict.Disagreement, "at the disco") {
		t.Errorf("not noticed: %s", report.Summary())
	}
}

// The peer's steps are limited, however fast they are.
func TestPeerStepsAreLimited(t *testing.T) {
	c := comparer(peer.Upstream())
	const limit = 3
	looks := 0
	c.PeerSteps = limit
	c.Peer = func(ctx context.Context, _ *alloctest.Case) alloctest.Outcome {
		for ctx.Err() == nil {
			looks++
		}
		return alloctest.Outcome{Err: fmt.Errorf("aborted: %w", context.Cause(ctx))}
	}
	if v := c.Compare(t.Context(), clustergen.Generate(1, clustergen.Default)); !v.PeerTimeout || looks != limit {
		t.Errorf("%d looks, timeout %v", looks, v.PeerTimeout)
	}
	upstream := comparer(peer.Upstream())
	upstream.PeerSteps = 1
	r := differential.Run{Comparer: upstream, Cases: 50, Seed: 1, Profile: clustergen.Pairs, Workers: 2}
	if report := r.Do(t.Context()); report.PeerTimeouts < 40 {
		t.Errorf("upstream ran into %d limits in 50 cases", report.PeerTimeouts)
	}
}

func TestRandomPeersAreAskedAgain(t *testing.T) {
	c := comparer(peer.Dray())
	asked := 0
	upstream := c.Peer
	c.Peer = func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		if asked++; asked < 3 {
			return alloctest.Outcome{Err: errors.New("not yet"), NodeOnly: true}
		}
		return upstream(ctx, c)
	}
	c.PeerTries = 5
	if v := c.Compare(t.Context(), clustergen.Generate(1, clustergen.Pairs)); v.Disagreement != "" || asked != 3 {
		t.Errorf("asked %d times: %+v", asked, v)
	}
	asked, c.PeerTries = 0, 2
	if v := c.Compare(t.Context(), clustergen.Generate(1, clustergen.Pairs)); v.Disagreement == "" || asked != 2 {
		t.Errorf("asked %d times, no disagreement", asked)
	}
}

func TestProgressTells(t *testing.T) {
	var out strings.Builder
	r := differential.Run{Comparer: comparer(wrong(func(_ *alloctest.Case, o *alloctest.Outcome) { o.Results = nil })),
		Cases: 30, Seed: 1, Profile: clustergen.Default, Workers: 1, Progress: differential.Progress(&out, 30, 0)}
	r.Do(t.Context())
	for _, want := range []string{"30 of 30 cases", "disagreements", ": ours is unsatisfiable, the peer's satisfiable\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestRunCountsPeerTimeouts(t *testing.T) {
	c := comparer(peer.Upstream())
	c.Peer = func(ctx context.Context, _ *alloctest.Case) alloctest.Outcome {
		<-ctx.Done()
		return alloctest.Outcome{Err: ctx.Err()}
	}
	c.PeerLimit = time.Millisecond
	r := differential.Run{Comparer: c, Cases: 20, Seed: 1, Profile: clustergen.Default, Workers: 2}
	report := r.Do(t.Context())
	if report.PeerTimeouts != 20 || report.Disagreements != 0 || report.Classes[differential.Satisfiable] == 0 {
		t.Errorf("want 20 timeouts, our classes and no disagreements: %s", report.Summary())
	}
}

// A documented decision excuses a difference, but no incorrect answer.
func TestDecisionsExcuseDifferences(t *testing.T) {
	seed := uint64(0)
	for clustergen.Decision(clustergen.Generate(seed, clustergen.Default)) == "" {
		seed++
	}
	c := clustergen.Generate(seed, clustergen.Default)
	fails := comparer(wrong(func(_ *alloctest.Case, o *alloctest.Outcome) { *o = alloctest.Outcome{Err: errors.New("other")} }))
	fails.Peer = func(context.Context, *alloctest.Case) alloctest.Outcome { return alloctest.Outcome{} }
	if v := fails.Compare(t.Context(), c); v.Decision != clustergen.DecisionWholePool || v.Disagreement != "" {
		t.Errorf("difference is not excused: %+v", v)
	}
	incorrect := fails
	incorrect.Ours = func(context.Context, *alloctest.Case) alloctest.Outcome {
		return alloctest.Outcome{Results: make([]resourceapi.AllocationResult, len(c.Claims)+1)}
	}
	if v := incorrect.Compare(t.Context(), c); v.Decision != "" || v.Disagreement == "" {
		t.Errorf("incorrect answer is excused: %+v", v)
	}
}

func TestReportPrintsSummary(t *testing.T) {
	report := run(t, peer.Upstream(), 50)
	var out strings.Builder
	report.Print(&out)
	for _, tag := range clustergen.AllTags() {
		if !strings.Contains(out.String(), string(tag)) {
			t.Errorf("table lacks %s", tag)
		}
	}
	for i, first := range clustergen.PairTags() {
		for _, second := range clustergen.PairTags()[i+1:] {
			if !strings.Contains(out.String(), string(first+", "+second)) {
				t.Errorf("table lacks %s with %s", first, second)
			}
		}
	}
	if !strings.HasPrefix(report.Summary(), "differential: cases=50 disagreements=0 decided-differently=0 peer-timeouts=0 satisfiable=") {
		t.Errorf("summary: %s", report.Summary())
	}
}
