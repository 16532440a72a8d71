// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/pools"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// rewriting is whether the flag -rewrite of datadriven, which alloctest uses, is set.
func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// verdict is how an answer of Karpenter's compares with that of Kubernetes.
type verdict string

const (
	same         verdict = "same"
	otherDevices verdict = "other devices"
	refused      verdict = "refused"
	wrongNo      verdict = "no, but fits"
	wrongYes     verdict = "yes, but does not fit"
	varies       verdict = "varies"
	gaveUp       verdict = "gave up"
)

var verdicts = []verdict{same, otherDevices, refused, wrongNo, wrongYes, varies, gaveUp}

const (
	// repeats is how often Karpenter is asked where there are several pools, which it visits in random
	// order: that of a map. Of two keys, the second one comes first once in eight times, so that one in
	// 10^11 scenarios that vary seems not to.
	repeats = 200
	// patience is less than the five seconds that Karpenter grants itself.
	patience = 3 * time.Second
	// thinking is the CPU time that a search has to have used before it counts as given up. A search that ends takes
	// less than half a second. On a busy machine it may get less than that within patience.
	thinking = 600 * time.Millisecond
)

// judge compares Karpenter's answers to a scenario with that of Kubernetes.
func judge(t *testing.T, s *alloctest.Scenario) verdict {
	t.Helper()
	outcome := peer.Dray()(t.Context(), s.Case)
	if alloctest.Render(s.Case, outcome) != s.Expected {
		t.Fatalf("%s/%s: Dray does not answer as expected", s.File, s.Name)
	}
	first := compare(t.Context(), s.Case, outcome)
	if outcome.Err != nil || first == refused || first == gaveUp || !visitsSeveralPools(s.Case) {
		return first
	}
	for range repeats {
		if compare(t.Context(), s.Case, outcome) != first {
			return varies
		}
	}
	return first
}

func visitsSeveralPools(c *alloctest.Case) bool {
	view, err := pools.Build(c.Features.PoolGates(), c.Slices).GatherPools(nodeNamed(c, c.Node))
	reached := 0
	for range view.Pools() {
		reached++
	}
	return err == nil && reached > 1
}

func compare(ctx context.Context, c *alloctest.Case, want alloctest.Outcome) verdict {
	return newSession(c, published(c.Slices)).compare(ctx, c.Claims, newExistingNode(nodeNamed(c, c.Node)), devicesOf(want))
}

// compare asks for claims on a node, and compares with the devices that Kubernetes
// allocates, nil if it does not.
func (s *session) compare(ctx context.Context, claims []*resourceapi.ResourceClaim, node dynamicresources.NodeClaim, want []device) verdict {
	return settled(func() (verdict, time.Duration) {
		start := cpuTime()
		v := s.compareOnce(ctx, claims, node, want)
		return v, cpuTime() - start
	})
}

// settled asks until the verdict does not depend on how busy the machine is. Each answer comes with the CPU time that it took.
func settled(ask func() (verdict, time.Duration)) verdict {
	for {
		if v, spent := ask(); v != gaveUp || spent >= thinking {
			return v
		}
	}
}

func (s *session) compareOnce(ctx context.Context, claims []*resourceapi.ResourceClaim, node dynamicresources.NodeClaim, want []device) verdict {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	devices, err := s.devices(ctx, claims, node)
	switch fits := want != nil; {
	case ctx.Err() != nil:
		return gaveUp
	case err != nil && !fits:
		return same
	case err != nil && err.Error() == noInstanceType:
		return wrongNo
	case err != nil:
		return refused
	case !fits:
		return wrongYes
	case !slices.Equal(devices, want):
		return otherDevices
	}
	return same
}

// TestSettled: a search counts as given up if it used enough CPU time, and is asked again otherwise.
func TestSettled(t *testing.T) {
	type answer struct {
		verdict verdict
		spent   time.Duration
	}
	for _, c := range []struct {
		answers []answer
		want    verdict
	}{
		{[]answer{{same, 0}}, same},
		{[]answer{{gaveUp, thinking}}, gaveUp},
		{[]answer{{gaveUp, thinking - 1}, {gaveUp, 0}, {wrongNo, thinking}}, wrongNo},
		{[]answer{{gaveUp, 0}, {gaveUp, 2 * thinking}}, gaveUp},
	} {
		asked := 0
		got := settled(func() (verdict, time.Duration) {
			asked++
			return c.answers[asked-1].verdict, c.answers[asked-1].spent
		})
		if got != c.want || asked != len(c.answers) {
			t.Errorf("%v: %s after %d answers, want %s", c.answers, got, asked, c.want)
		}
	}
}

func devicesOf(o alloctest.Outcome) []device {
	if o.Results == nil {
		return nil
	}
	devices := []device{}
	for claim := range o.Results {
		for _, r := range o.Results[claim].Devices.Results {
			devices = append(devices, device{claim: claim, id: pools.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}})
		}
	}
	return devices
}

// TestSuite compares Karpenter's answers to all scenarios of alloctest with those of
// Kubernetes, by topic. The README has the table.
func TestSuite(t *testing.T) {
	table := answers(t)
	const file, start, end = "README.md", "<!-- answers -->\n", "<!-- /answers -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), start)
	old, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no place for the table", file)
	case rewriting():
		if err := os.WriteFile(file, []byte(before+start+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case old != table:
		t.Errorf("%s has another table than\n%s", file, table)
	}
}

func answers(t *testing.T) string {
	var topics []string
	counts := make(map[string]map[verdict]int)
	for s := range alloctest.Scenarios() {
		if s.Case.Features != allocator.AllFeatures() {
			continue // Karpenter has no feature gates
		}
		if counts[s.File] == nil {
			topics = append(topics, s.File)
			counts[s.File] = make(map[verdict]int)
		}
		v := judge(t, &s)
		counts[s.File][v]++
		t.Run(fmt.Sprintf("%s/%s/%s", v, s.File, s.Name), func(t *testing.T) {
			if v != same { // make conformance counts these, and this package's README has them by topic
				t.Logf("CONFORMANCE answers differ: %s", v)
			}
		})
	}
	var b strings.Builder
	b.WriteString("| scenarios |")
	for _, v := range verdicts {
		fmt.Fprintf(&b, " %s |", v)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(verdicts)) + "\n")
	for _, topic := range topics {
		fmt.Fprintf(&b, "| %s |", topic)
		for _, v := range verdicts {
			fmt.Fprintf(&b, " %d |", counts[topic][v])
		}
		b.WriteString("\n")
	}
	return b.String()
}
