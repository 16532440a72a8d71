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

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
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

// Each stated change makes the group start, and each named rival has the place of another pod.
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

// named names pods or nodes by their position.
func named(kind string) func(int) string {
	return func(n int) string { return fmt.Sprint(kind, "-", n) }
}

// sentencesAbout is what is said of a question that has a no for an answer.
func sentencesAbout(t *testing.T, q gang.Question) string {
	t.Helper()
	found, err := gang.Explain(t.Context(), q, ask(t, q), true)
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	return strings.Join(found.Sentences(named("pod"), named("node")), "; ")
}

// Three pods that each want a whole GPU or a half, and one GPU.
func TestShortfallSentences(t *testing.T) {
	list := []claim{{requests: [][]alternative{{{0, 1}, {1, 1}}}}, {requests: [][]alternative{{{0, 1}, {1, 1}}}}, {requests: [][]alternative{{{0, 1}, {1, 1}}}}}
	s := &small{
		nodes: 1, counters: []int64{2, 1}, devices: []device{{0, 0, 0, 2, 0}, {0, 1, 0, 1, 0}, {0, 1, 1, 1, 1}},
		claims: list, pods: [][]int{{0}, {1}, {2}}, kinds: []int{0, 0, 0}, cpu: []int{1}, room: []int{3}, away: [][]int{nil}, least: 3,
	}
	sentences := func(s *small) string {
		t.Helper()
		return sentencesAbout(t, s.question())
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
	many := (&gang.Shortfall{Pod: 9, Rivals: []gang.Rival{{Pods: []int{0, 1, 2, 3, 4}}}, Changes: []gang.Change{{Nodes: 3}}}).Sentences(named("pod"), named("node"))
	if got := strings.Join(many, "; "); got != "pod-9 competes with pod-0, pod-1, pod-2 and 2 more for room on node node-0; the group starts with 3 more nodes like node-0" {
		t.Error(got)
	}
	three := (&gang.Shortfall{Pod: 9, Rivals: []gang.Rival{{Pods: []int{0, 1, 2}}}}).Sentences(named("pod"), named("node"))
	if got := strings.Join(three, "; "); got != "pod-9 competes with pod-0, pod-1, pod-2 for room on node node-0" {
		t.Error(got)
	}
	many = (&gang.Shortfall{Pod: 9, Rivals: []gang.Rival{{Pods: []int{0, 1, 2, 3}}}}).Sentences(named("pod"), named("node"))
	if got := strings.Join(many, "; "); got != "pod-9 competes with pod-0, pod-1, pod-2 and 1 more for room on node node-0" {
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

// A yes needs no reason though some pods beyond those that are needed have no place.
func TestShortfallOfPodsBeyondTheLeast(t *testing.T) {
	q := withPods(rails([]attribute{text("x"), text("y")}), 3)
	q.Min = 2
	r := ask(t, q)
	if found, err := gang.Explain(t.Context(), q, r, true); r.Verdict != allocator.Satisfiable || r.Placed() != 2 || found != nil || err != nil {
		t.Errorf("%v with %d pods: %+v, %v", r.Verdict, r.Placed(), found, err)
	}
}

// A claim that a pod shares with placed pods is allocated already. Three pods have a device in common and one
// of their own each, and there are three devices.
func TestShortfallOfSharedClaims(t *testing.T) {
	one := claim{requests: [][]alternative{{{0, 1}}}}
	s := &small{
		nodes: 1, counters: []int64{3, 1}, devices: []device{{0, 0, 0, 1, 0}, {0, 0, 1, 1, 0}, {0, 0, 2, 1, 0}},
		claims: []claim{one, one, one, one}, pods: [][]int{{0, 1}, {0, 2}, {0, 3}}, kinds: []int{0, 0, 0}, cpu: []int{1}, room: []int{3}, away: [][]int{nil}, least: 3,
	}
	const want = "pod-2 competes with pod-0 for device gpu.example.com/pool-0/device-0 on node node-0, with pod-1 for device gpu.example.com/pool-0/device-2 on node node-0"
	if got := sentencesAbout(t, s.question()); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
}

// Sentences about rivals and changes in cases that enumeration does not distinguish.
func TestShortfallNames(t *testing.T) {
	whole, part, double := claim{requests: [][]alternative{{{0, 1}}}}, claim{requests: [][]alternative{{{1, 1}}}}, claim{requests: [][]alternative{{{0, 2}}}}
	admin := claim{requests: [][]alternative{{{0, 1}}}, admin: true}
	alone := func(n int) (pods [][]int) {
		for i := range n {
			pods = append(pods, []int{i})
		}
		return pods
	}
	for name, test := range map[string]struct {
		small
		want string
	}{
		"devices of the domain": {small{ // a device that is free is of another one
			nodes: 1, counters: []int64{3, 1}, devices: []device{{0, 0, 0, 1, 1}, {0, 0, 1, 1, 0}, {0, 0, 2, 1, 0}},
			claims: []claim{whole, whole, whole}, pods: alone(3), kinds: []int{0, 0, 0}, cpu: []int{1}, room: []int{3}, across: across{most: 1, match: true},
		}, "pod-2 competes with pod-0 for device gpu.example.com/pool-0/device-1 on node node-0, with pod-1 for device gpu.example.com/pool-0/device-2 on node node-0; "},
		"room of several nodes": {small{
			nodes: 2, counters: []int64{1, 1, 1}, pods: [][]int{nil, nil, nil}, kinds: []int{0, 0, 0}, cpu: []int{1}, room: []int{1, 1},
		}, "pod-2 competes with pod-0 for room on node node-0, with pod-1 for room on node node-1; "},
		"several sets of counters": {small{
			nodes: 1, counters: []int64{2, 2}, devices: []device{{0, 0, 0, 2, 0}, {0, 1, 0, 1, 0}, {1, 0, 1, 2, 0}, {1, 1, 1, 1, 0}},
			claims: []claim{part, part, whole}, pods: alone(3), kinds: []int{0, 0, 1}, cpu: []int{1, 1}, room: []int{3},
		}, "pod-2 competes with pod-0 for counter set gpu.example.com/pool-0/set on node node-0, with pod-1 for counter set gpu.example.com/pool-1/set on node node-0; "},
		"room, with other counters": {small{
			nodes: 1, counters: []int64{2, 2}, devices: []device{{0, 1, 0, 1, 0}, {1, 0, 0, 1, 0}},
			claims: []claim{whole, part}, pods: alone(2), kinds: []int{0, 1}, cpu: []int{1, 1}, room: []int{1},
		}, "pod-1 competes with pod-0 for room on node node-0; "},
		"admin access": {small{ // keeps no device from others
			nodes: 1, counters: []int64{2, 1}, devices: []device{{0, 0, 0, 1, 0}, {0, 1, 0, 1, 0}},
			claims: []claim{part, admin, part, admin}, pods: [][]int{{0, 1}, {2, 3}}, kinds: []int{0, 0}, cpu: []int{1}, room: []int{2},
		}, "pod-1 competes with pod-0 for device gpu.example.com/pool-0/device-1 on node node-0; "},
		"a node with several pods": {small{ // none of them alone stands in the way, and four nodes before it are of no use
			nodes: 5, counters: []int64{1, 1, 1, 1, 2, 1}, devices: []device{{4, 0, 0, 1, 0}, {4, 0, 0, 1, 0}},
			claims: []claim{whole, whole, double}, pods: alone(3), kinds: []int{0, 0, 1}, cpu: []int{1, 1}, room: []int{3, 3, 3, 3, 3},
		}, "the group starts with a minCount lower by 1, or with one more node like node-4"},
		"a node with rivals": {small{ // before one with as much, on which two pods would have to make room
			nodes: 2, counters: []int64{2, 2, 1}, devices: []device{{0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}, {1, 0, 0, 1, 0}, {1, 0, 0, 1, 0}},
			claims: []claim{whole, whole, double, double}, pods: alone(4), kinds: []int{0, 0, 1, 1}, cpu: []int{1, 1}, room: []int{4, 4},
		}, "pod-3 competes with pod-2 for devices gpu.example.com/pool-1/device-2 and 1 more on node node-1; the group starts with a minCount lower by 1, or with one more node like node-1"},
		"no node of use": {small{
			nodes: 2, counters: []int64{1, 1, 1}, devices: []device{{1, 0, 0, 1, 0}}, claims: []claim{double}, pods: alone(1), kinds: []int{0}, cpu: []int{1}, room: []int{1, 1},
		}, ""},
	} {
		s := test.small
		if s.least = len(s.pods); s.away == nil {
			s.away = make([][]int, len(s.cpu))
		}
		if got := sentencesAbout(t, s.question()); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Among several constraints, the one is named without which the group starts.
func TestShortfallNamesTheConstraint(t *testing.T) {
	q := withPods(rails([]attribute{text("x")}, []attribute{text("y")}), 2)
	q.Group.Constraints = []extension.GroupMatch{{MatchAttribute: rail, Requests: []string{"other"}}, {MatchAttribute: rail}}
	if got := sentencesAbout(t, q); !strings.Contains(got, "without constraints[1]") || strings.Contains(got, "constraints[0]") {
		t.Error(got)
	}
}

// Another node like one has a host name of its own: it does not reach devices for that host.
func TestShortfallOfDevicesForAHost(t *testing.T) {
	q := withPods(rails([]attribute{text("x"), text("y")}), 2)
	q.Nodes[0].Labels = map[string]string{corev1.LabelHostname: "node-0"}
	var published []*resourceapi.ResourceSlice
	for pool := range q.State.Snapshot().Pools() {
		for slice := range pool.Slices() {
			slice = slice.DeepCopy()
			slice.Spec.NodeName, slice.Spec.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-0"}}},
			}}}
			published = append(published, slice)
		}
	}
	q.State = pools.NewState(pools.Build(allocator.AllFeatures().PoolGates(), published))
	q.Room = func(_ int, pods []int) bool { return len(pods) < 2 }
	if got := sentencesAbout(t, q); !strings.HasSuffix(got, "the group starts with a minCount lower by 1") {
		t.Error(got)
	}
}

// Another node has its devices free, though those of the node that it is like are in use.
func TestShortfallOfDevicesInUse(t *testing.T) {
	q := withPods(rails([]attribute{text("x")}), 1)
	other := q.Pods[0].Variants[0][0].DeepCopy()
	other.Name, other.UID = "other", "other"
	other.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: "gpu.example.com", Pool: "node-0", Device: "device-0"},
	}}}
	var err error
	if q.State, err = q.State.Assume(other); err != nil {
		t.Fatal(err)
	}
	if got := sentencesAbout(t, q); got != "the group starts with one more node like node-0" {
		t.Error(got)
	}
}
