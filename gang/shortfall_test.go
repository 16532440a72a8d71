// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
)

// withMore is the case with more nodes like one.
func (s *small) withMore(like, count int) *small {
	more := *s
	more.counters, more.devices, more.room, more.away = slices.Clone(s.counters), slices.Clone(s.devices), slices.Clone(s.room), slices.Clone(s.away)
	for i := range more.devices {
		if more.devices[i].pool == s.nodes {
			more.devices[i].pool += count
		}
	}
	for i := range count {
		n := s.nodes + i
		more.counters = slices.Insert(more.counters, n, s.counters[like])
		more.room = append(more.room, s.room[like])
		for k := range more.away {
			if slices.Contains(more.away[k], like) {
				more.away[k] = append(slices.Clip(more.away[k]), n)
			}
		}
		for _, d := range s.devices {
			if d.pool == like {
				d.pool = n
				more.devices = append(more.devices, d)
			}
		}
	}
	more.nodes += count
	return &more
}

// checkShortfall compares what is said of a no with enumerations.
func (s *small) checkShortfall(t *testing.T, seen map[string]int) {
	t.Helper()
	q := s.question()
	r := ask(t, q)
	found, err := gang.Explain(context.Background(), q, r, true)
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		if r.Verdict != allocator.Satisfiable {
			t.Fatalf("a no without a reason\n%s", s)
		}
		return
	}
	placed := make([]int, 0, len(s.pods))
	for pod, place := range r.Places {
		if place.Node >= 0 {
			placed = append(placed, pod)
		}
	}
	for _, rival := range found.Rivals {
		for _, pod := range rival.Pods {
			instead := append(slices.DeleteFunc(slices.Clone(placed), func(p int) bool { return p == pod }), found.Pod)
			if slices.Sort(instead); r.Places[pod].Node != rival.Node || slices.Contains(placed, found.Pod) || !s.administers() && !s.possible(s.nothing(), instead, nil) {
				t.Fatalf("pod %d does not have the place of pod %d on node %d\n%s", found.Pod, pod, rival.Node, s)
			}
			for _, id := range rival.Devices {
				if held := devicesOf(&gang.Result{Places: r.Places[pod : pod+1]}); !strings.Contains(held, id.Pool+"/"+id.Device) {
					t.Fatalf("pod %d is said to have %s, it has %s", pod, id, held)
				}
			}
		}
		seen[fmt.Sprint("rival for ", len(rival.Devices) > 0, len(rival.Counters) > 0)]++
	}
	proof := !slices.ContainsFunc(s.devices, func(d device) bool { return d.pool == s.nodes }) && !s.administers() && !s.shares()
	if c := s.checkChanges(t, found, seen); c.Nodes > 0 || !proof || s.across.preferred {
		return
	}
	for n := range s.nodes {
		if more := s.withMore(n, 1); !slices.Contains(s.away[s.kinds[found.Pod]], n) && more.most() >= s.least {
			t.Fatalf("one more node like %d is enough, which is not said: %+v\n%s", n, found.Changes, s)
		}
	}
}

// checkChanges compares changes with enumerations, and returns the one of nodes.
func (s *small) checkChanges(t *testing.T, found *gang.Shortfall, seen map[string]int) (nodes gang.Change) {
	t.Helper()
	for _, c := range found.Changes {
		changed, needs := *s, s.least
		switch {
		case c.Fewer > 0:
			needs -= c.Fewer
			seen["fewer"]++
		case c.Without != "":
			changed.across = across{}
			seen["without"]++
		default:
			changed, nodes = *s.withMore(c.Like, c.Nodes), c
			seen["nodes"]++
		}
		if !s.administers() && (changed.most() < needs || needs < 1) {
			t.Fatalf("change %+v is not enough: %d of %d pods fit\n%s", c, changed.most(), needs, &changed)
		}
	}
	return nodes
}

// What a group lacks is so: with each change it starts, and each pod that is named has the place of another.
func TestShortfallLikeEnumeration(t *testing.T) {
	seen := make(map[string]int)
	for _, f := range []features{
		{counters: true, lists: true}, {cpu: true, lists: true, kinds: true}, {across: true, counters: true, lists: true},
		{counters: true, lists: true, matches: true, cpu: true, kinds: true, least: true, away: true, across: true},
		{true, true, true, true, true, true, true, true, true, true, true},
	} {
		for seed := range 120 {
			drawSmall(rand.New(rand.NewPCG(uint64(seed), 29)), f).checkShortfall(t, seen)
		}
	}
	for _, kind := range []string{"rival for true false", "rival for false true", "rival for false false", "fewer", "without", "nodes"} {
		if seen[kind] < 3 {
			t.Errorf("%s: seen %d times only: %v", kind, seen[kind], seen)
		}
	}
}

// Three pods that each want a whole GPU or a half, and one GPU.
func TestShortfallSentences(t *testing.T) {
	list := []claim{{requests: [][]alternative{{{0, 1}, {1, 1}}}}, {requests: [][]alternative{{{0, 1}, {1, 1}}}}, {requests: [][]alternative{{{0, 1}, {1, 1}}}}}
	s := &small{
		nodes: 1, counters: []int64{2, 1}, devices: []device{{0, 0, 0, 2, 0}, {0, 1, 0, 1, 0}, {0, 1, 1, 1, 1}},
		claims: list, pods: [][]int{{0}, {1}, {2}}, kinds: []int{0, 0, 0}, cpu: []int{1}, room: []int{3}, away: [][]int{nil}, least: 3,
	}
	name := func(kind string) func(int) string { return func(n int) string { return fmt.Sprint(kind, "-", n) } }
	sentences := func(s *small) string {
		t.Helper()
		q := s.question()
		found, err := gang.Explain(t.Context(), q, ask(t, q), true)
		if err != nil || found == nil {
			t.Fatal(found, err)
		}
		return strings.Join(found.Sentences(name("pod"), name("node")), "; ")
	}
	const want = "pod-2 competes with pod-0 for device gpu.example.com/pool-0/device-1 on node node-0, with pod-1 for device gpu.example.com/pool-0/device-2 on node node-0; " +
		"the group starts with a minCount lower by 1, or with one more node like node-0"
	if got := sentences(s); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for i := range s.claims { // with the constraint, one of the halves is of no use
		s.claims[i].requests = [][]alternative{{{1, 1}}}
	}
	s.pods, s.kinds, s.least, s.across = s.pods[:2], s.kinds[:2], 2, across{most: 1, match: true}
	if got := sentences(s); !strings.Contains(got, "pod-1 competes with pod-0 for device gpu.example.com/pool-0/device-1") || !strings.Contains(got, "or without constraints[0], or with one more node") {
		t.Error(got)
	}
	s.across.match = false
	if got := sentences(s); !strings.Contains(got, "or without maxDistinct[0], or") {
		t.Error(got)
	}
	s.across, s.room[0] = across{}, 1
	if got := sentences(s); !strings.Contains(got, "pod-1 competes with pod-0 for") {
		t.Error(got)
	}
	s.room[0], s.claims[0].requests = 3, [][]alternative{{{0, 1}}}
	s.kinds, s.cpu, s.away = []int{0, 1}, []int{1, 1}, [][]int{nil, nil}
	if got := sentences(s); !strings.Contains(got, "pod-1 competes with pod-0 for counter set gpu.example.com/pool-0/set on node node-0;") {
		t.Error(got)
	}
	s.devices = nil
	if got := sentences(s); got != "" {
		t.Error(got)
	}
	many := (&gang.Shortfall{Pod: 9, Rivals: []gang.Rival{{Pods: []int{0, 1, 2, 3, 4}}}, Changes: []gang.Change{{Nodes: 3}}}).Sentences(name("pod"), name("node"))
	if got := strings.Join(many, "; "); got != "pod-9 competes with pod-0, pod-1, pod-2 and 2 more for room on node node-0; the group starts with 3 more nodes like node-0" {
		t.Error(got)
	}
	three := (&gang.Shortfall{Pod: 9, Rivals: []gang.Rival{{Pods: []int{0, 1, 2}}}}).Sentences(name("pod"), name("node"))
	if got := strings.Join(three, "; "); got != "pod-9 competes with pod-0, pod-1, pod-2 for room on node node-0" {
		t.Error(got)
	}
}

// A yes needs no reason, and who no longer wants to know is not told.
func TestShortfallEnds(t *testing.T) {
	q := withPods(rails([]attribute{text("x"), text("y")}), 2)
	q.Group = match
	r := ask(t, q)
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no longer wanted"))
	if found, err := gang.Explain(cancelled, q, r, true); err == nil || err.Error() != "no longer wanted" {
		t.Errorf("%+v, %v", found, err)
	}
	q.Group = extension.Group{}
	if found, err := gang.Explain(t.Context(), q, ask(t, q), true); found != nil || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
}
