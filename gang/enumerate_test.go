// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/internal/dev/peer"
)

// use is what is in use in an enumeration.
type use struct {
	taken []bool  // by device
	left  []int64 // by pool
	on    [][]int // pods by node
	// watched are devices that the pod which is placed has by admin access.
	watched []int
	// where claims were allocated: -1 not yet, else the node, or s.nodes for everywhere.
	where []int
}

func (s *small) nothing() *use {
	u := &use{taken: make([]bool, len(s.devices)), left: slices.Clone(s.counters), on: make([][]int, s.nodes), where: make([]int, len(s.claims))}
	for c := range u.where {
		u.where[c] = -1
	}
	return u
}

// decided is what was decided of a pod: its node, and the alternative of each request of its claims; nil is anything.
type decided struct {
	node         int
	alternatives map[int][]int // by claim
}

// possible reports whether all pods of a list have devices, those before with what was decided.
//
// Admin access of a pod keeps its own other claims from a device, but no other pods.
func (s *small) possible(u *use, pods []int, before map[int]decided) bool {
	if len(pods) == 0 {
		return true
	}
	pod := pods[0]
	d, fixed := before[pod]
	for n := range s.nodes {
		if fixed && d.node != n || slices.Contains(s.away[s.kinds[pod]], n) || !s.hasRoom(n, append(slices.Clone(u.on[n]), pod)) {
			continue
		}
		u.on[n] = append(u.on[n], pod)
		done := s.claimsOn(u, n, s.pods[pod], d.alternatives, func() bool {
			watched := u.watched
			u.watch(s, watched, -1)
			u.watched = nil
			done := s.possible(u, pods[1:], before)
			u.watched = watched
			u.watch(s, watched, 1)
			return done
		})
		u.on[n] = u.on[n][:len(u.on[n])-1]
		if done {
			return true
		}
	}
	return false
}

// claimsOn tries all devices for claims.
func (s *small) claimsOn(u *use, node int, claims []int, chosen map[int][]int, then func() bool) bool {
	if len(claims) == 0 {
		return then()
	}
	c := claims[0]
	next := func() bool { return s.claimsOn(u, node, claims[1:], chosen, then) }
	if u.where[c] >= 0 {
		return (u.where[c] == s.nodes || u.where[c] == node) && next()
	}
	reach := s.nodes
	var request func(r, alternative, missing, from, root int, reach int) bool
	request = func(r, a, missing, from, root, reach int) bool {
		if missing == 0 {
			if r++; r == len(s.claims[c].requests) {
				u.where[c] = reach
				done := next()
				u.where[c] = -1
				return done
			}
			for a, alternative := range s.claims[c].requests[r] {
				if chosen != nil && chosen[c][r] != a {
					continue
				}
				if request(r, a, alternative.count, 0, root, reach) {
					return true
				}
			}
			return false
		}
		for i := from; i < len(s.devices); i++ {
			d := s.devices[i]
			here := d.pool == node || d.pool == s.nodes
			if s.allowed != nil && s.covers(c, r, a) && !slices.Contains(s.allowed, d.rail) {
				continue
			}
			if !here || u.taken[i] && !s.claims[c].admin || u.watches(i) && !s.claims[c].admin || d.model != s.claims[c].requests[r][a].model || d.draws > u.left[d.pool] || s.claims[c].matched && root >= 0 && root != d.root {
				continue
			}
			if s.claims[c].admin {
				u.watched = append(u.watched, i)
				u.left[d.pool] -= d.draws
				done := request(r, a, missing-1, i+1, d.root, map[bool]int{true: node, false: reach}[d.pool == node])
				u.watched = u.watched[:len(u.watched)-1]
				u.left[d.pool] += d.draws
				if done {
					return true
				}
				continue
			}
			u.taken[i] = true
			u.left[d.pool] -= d.draws
			to := reach
			if d.pool == node {
				to = node
			}
			done := request(r, a, missing-1, i+1, d.root, to)
			u.taken[i] = false
			u.left[d.pool] += d.draws
			if done {
				return true
			}
		}
		return false
	}
	return request(-1, 0, 0, 0, -1, reach)
}

// watches reports whether the pod has a device by admin access.
func (u *use) watches(device int) bool { return slices.Contains(u.watched, device) }

// watch takes what devices draw that a pod has by admin access, or gives it back.
func (u *use) watch(s *small, devices []int, factor int64) {
	for _, i := range devices {
		u.left[s.devices[i].pool] -= factor * s.devices[i].draws
	}
}

// administers reports whether a claim is for admin access.
func (s *small) administers() bool {
	return slices.ContainsFunc(s.claims, func(c claim) bool { return c.admin })
}

// most is how many pods fit together, in the domain in which most of them do.
func (s *small) most() int {
	if s.across.most == 0 || s.across.preferred {
		return s.mostIn(nil)
	}
	most := 0
	for _, rails := range s.domains() {
		most = max(most, s.mostIn(rails))
	}
	return most
}

func (s *small) some(chosen []int, from, n int) bool {
	if len(chosen) == n {
		return s.possible(s.nothing(), chosen, nil)
	}
	for pod := from; pod < len(s.pods); pod++ {
		if s.some(append(slices.Clone(chosen), pod), pod+1, n) {
			return true
		}
	}
	return false
}

// combinations lists the alternatives of the requests of claims, the first request being the most important.
func (s *small) combinations(claims []int) []map[int][]int {
	list := []map[int][]int{{}}
	for _, c := range claims {
		for _, alternatives := range s.claims[c].requests {
			var longer []map[int][]int
			for _, chosen := range list {
				for a := range alternatives {
					copied := make(map[int][]int)
					for k, v := range chosen {
						copied[k] = slices.Clone(v)
					}
					copied[c] = append(copied[c], a)
					longer = append(longer, copied)
				}
			}
			list = longer
		}
	}
	return list
}

// preferred is what each pod gets if all fit: its first alternatives with which the others still fit, on the first node where they do.
func (s *small) preferred() map[int]decided {
	all := make([]int, len(s.pods))
	for i := range all {
		all[i] = i
	}
	before := make(map[int]decided)
	for _, pod := range all {
		func() {
			for _, combination := range s.combinations(s.pods[pod]) {
				for n := range s.nodes {
					before[pod] = decided{n, combination}
					if s.possible(s.nothing(), all, before) {
						return
					}
				}
			}
			panic("the pods fit, and now they do not")
		}()
	}
	return before
}

// decidedIn reads what a result decided.
func (s *small) decidedIn(r *gang.Result) map[int]decided {
	of := make(map[int]decided)
	for pod, place := range r.Places {
		d := decided{place.Node, make(map[int][]int)}
		for _, made := range place.Claims {
			c, _ := strconv.Atoi(strings.TrimPrefix(made.Name, "claim-"))
			for range s.claims[c].requests {
				d.alternatives[c] = append(d.alternatives[c], 0)
			}
			for _, result := range made.Status.Allocation.Devices.Results {
				request, alternative, listed := strings.Cut(result.Request, "/")
				if i, _ := strconv.Atoi(request[1:]); listed {
					d.alternatives[c][i], _ = strconv.Atoi(alternative[1:])
				}
			}
		}
		of[pod] = d
	}
	return of
}

// verify says what is wrong with places, as far as devices and room are concerned.
func (s *small) verify(r *gang.Result) error {
	u, rails := s.nothing(), make(map[int]bool)
	for pod, place := range r.Places {
		if place.Node < 0 {
			continue
		}
		if u.on[place.Node] = append(u.on[place.Node], pod); slices.Contains(s.away[s.kinds[pod]], place.Node) {
			return fmt.Errorf("pod %d cannot run on node %d", pod, place.Node)
		}
		for _, made := range place.Claims {
			c, _ := strconv.Atoi(strings.TrimPrefix(made.Name, "claim-"))
			if u.where[c] >= 0 || !slices.Contains(s.pods[pod], c) {
				return fmt.Errorf("claim %d is allocated twice, or for another pod", c)
			}
			u.where[c] = s.nodes
			roots, counts := make(map[int]bool), make(map[string]int)
			for _, result := range made.Status.Allocation.Devices.Results {
				i, _ := strconv.Atoi(strings.TrimPrefix(result.Device, "device-"))
				d := s.devices[i]
				if u.taken[i] && !s.claims[c].admin {
					return fmt.Errorf("device %d is taken twice", i)
				}
				if s.claims[c].admin {
					u.left[d.pool] += d.draws // nothing is taken
				}
				if u.left[d.pool] -= d.draws; d.draws > 0 && u.left[d.pool] < 0 {
					return fmt.Errorf("pool %d is overdrawn", d.pool)
				}
				if d.pool != s.nodes && d.pool != place.Node {
					return fmt.Errorf("device %d is not on node %d", i, place.Node)
				}
				if d.pool != s.nodes {
					u.where[c] = place.Node
				}
				u.taken[i], roots[d.root] = u.taken[i] || !s.claims[c].admin, true
				if request, alternative := requestOf(result.Request); s.covers(c, request, alternative) {
					rails[d.rail] = true
				}
				counts[result.Request]++
				request, alternative, _ := strings.Cut(result.Request, "/")
				n, _ := strconv.Atoi(request[1:])
				a, _ := strconv.Atoi(strings.TrimPrefix(alternative, "s"))
				if want := s.claims[c].requests[n][a]; want.model != d.model || counts[result.Request] > want.count {
					return fmt.Errorf("device %d is not for request %s of claim %d", i, result.Request, c)
				}
			}
			if s.claims[c].matched && len(roots) > 1 || len(counts) != len(s.claims[c].requests) {
				return fmt.Errorf("claim %d has devices of %d roots for %d requests", c, len(roots), len(counts))
			}
		}
		for _, c := range s.pods[pod] {
			if u.where[c] < 0 || u.where[c] != s.nodes && u.where[c] != place.Node {
				return fmt.Errorf("claim %d of pod %d is not there", c, pod)
			}
		}
	}
	if s.across.most > 0 && (!s.across.preferred || len(r.Domain) > 0) && (len(rails) > s.across.most || rails[-1]) {
		return fmt.Errorf("devices are of rails %v", rails)
	}
	for n, pods := range u.on {
		if !s.hasRoom(n, pods) {
			return fmt.Errorf("node %d has no room for pods %v", n, pods)
		}
	}
	return nil
}

// requestOf reads the name of a request.
func requestOf(name string) (request, alternative int) {
	parent, sub, listed := strings.Cut(name, "/")
	request, _ = strconv.Atoi(parent[1:])
	if listed {
		alternative, _ = strconv.Atoi(sub[1:])
	}
	return request, alternative
}

// tally counts what cases came to.
type tally struct{ cases, fit, inTree, oneByOne, joint, exact, missed, undecided int }

// notDecided counts a case without an answer, which is missed if enough pods fit.
func (c *tally) notDecided(fits bool) {
	if c.undecided++; fits {
		c.fit++
		c.missed++
	}
}

// check compares an answer with an enumeration.
func (s *small) check(t *testing.T, count *tally) {
	t.Helper()
	q := s.question()
	r := ask(t, q)
	if err := s.verify(r); err != nil {
		t.Fatalf("%v: %v\n%s", s.decidedIn(r), err, s)
	}
	network := slices.ContainsFunc(s.devices, func(d device) bool { return d.pool == s.nodes })
	network = network || s.administers()
	most, whole := s.most(), s.least == len(s.pods) || !s.shares()
	if s.administers() {
		most = max(most, r.Placed()) // counters may be enough for admin access in another order of pods
	}
	count.cases++
	switch placed := r.Placed(); {
	case r.Verdict == allocator.NotDecided:
		count.notDecided(most >= s.least)
		return
	case placed > most:
		t.Fatalf("%d pods are placed, and %d fit\n%s", placed, most, s)
	case (r.Verdict == allocator.Satisfiable) != (placed >= s.least):
		t.Fatalf("%v, with %d of %d pods placed\n%s", r.Verdict, placed, s.least, s)
	case most < s.least:
		if r.Exact {
			count.exact++
		} else if !network && whole {
			t.Fatalf("a no that is not said to be exact\n%s", s)
		}
		return
	case r.Verdict != allocator.Satisfiable && r.Exact:
		t.Fatalf("said to be impossible, but %d pods fit\n%s", most, s)
	case r.Verdict != allocator.Satisfiable && !network && whole:
		t.Fatalf("%d pods fit, found %d\n%s", most, placed, s)
	}
	count.fit++
	if os.Getenv("GANG_IN_TREE") != "" && s.inTree(t) {
		count.inTree++
	}
	s.checkDomain(t, r, most)
	if r.Verdict != allocator.Satisfiable {
		count.missed++
		if os.Getenv("GANG_MISSES") != "" {
			t.Logf("missed: %d pods are placed, %d fit: %v\n%s", r.Placed(), most, s.decidedIn(r), s)
		}
		return
	}
	if r.OneByOne {
		count.oneByOne++
		if got, want := devicesOf(r), devicesOf(s.oneByOne(t, s.allocate(t))); got != want {
			t.Fatalf("one by one: %s, want %s\n%s", got, want, s)
		}
		q.Together = true
		r = ask(t, q)
		s.checkDomain(t, r, most)
		if err := s.verify(r); err != nil {
			t.Fatalf("together: %v\n%s", err, s)
		}
	} else {
		count.joint++
	}
	if network || s.shares() || s.mostIn(s.allowed) < len(s.pods) {
		return // a domain need not be one in which more pods fit than are needed
	}
	got, want := s.decidedIn(r), s.preferred()
	for pod := range s.pods {
		if g, w := fmt.Sprint(got[pod]), fmt.Sprint(want[pod]); g != w {
			t.Fatalf("pod %d has %s, want %s\n%s", pod, g, w, s)
		}
	}
}

// allocates gives devices to open claims when others are allocated; nil is a no.
type allocates func(open, allocated []*resourceapi.ResourceClaim, node *corev1.Node) []resourceapi.AllocationResult

// allocate asks the allocator.
func (s *small) allocate(t *testing.T) allocates {
	t.Helper()
	q := s.question() // with the domain as selectors
	return func(open, allocated []*resourceapi.ResourceClaim, node *corev1.Node) []resourceapi.AllocationResult {
		state := q.State
		for _, claim := range allocated {
			var err error
			if state, err = state.Assume(claim); err != nil {
				t.Fatal(err)
			}
		}
		problem, err := q.Compile(open)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := problem.Allocate(context.Background(), state, node)
		if err != nil {
			t.Fatal(err)
		}
		if assignment, fits := outcome.(*allocator.Assignment); fits {
			return assignment.Results()
		}
		return nil
	}
}

// allocateInTree asks the allocator of kube-scheduler's own plugin.
func (s *small) allocateInTree(t *testing.T) allocates {
	t.Helper()
	inTree, q := peer.Upstream(), s.question()
	return func(open, allocated []*resourceapi.ResourceClaim, node *corev1.Node) []resourceapi.AllocationResult {
		if len(open) == 0 {
			return []resourceapi.AllocationResult{}
		}
		outcome := inTree(context.Background(), &alloctest.Case{
			Features: allocator.AllFeatures(), Nodes: q.Nodes, Slices: s.slices(), Classes: []*resourceapi.DeviceClass{gpuClass()},
			Allocated: allocated, Claims: open, Node: node.Name,
		})
		if outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		return outcome.Results
	}
}

// oneByOne is what a scheduler gives to one pod after the other.
func (s *small) oneByOne(t *testing.T, allocate allocates) *gang.Result {
	t.Helper()
	q := s.question()
	places := make([]gang.Place, len(q.Pods))
	on, made := make([][]int, len(q.Nodes)), make(map[string]*resourceapi.ResourceClaim)
	var allocated []*resourceapi.ResourceClaim
	for pod := range q.Pods {
		places[pod].Node = -1
		for n, node := range q.Nodes {
			var open []*resourceapi.ResourceClaim
			suits := q.Pods[pod].Variant(n) >= 0 && q.Room(n, append(slices.Clone(on[n]), pod))
			for _, claim := range q.Pods[pod].Variants[0] {
				if allocated := made[claim.Name]; allocated == nil {
					open = append(open, claim)
				} else if selector := allocated.Status.Allocation.NodeSelector; selector != nil && len(selector.NodeSelectorTerms[0].MatchFields) > 0 {
					suits = suits && selector.NodeSelectorTerms[0].MatchFields[0].Values[0] == node.Name
				}
			}
			if !suits {
				continue
			}
			results := allocate(open, allocated, node)
			if results == nil {
				continue
			}
			places[pod].Node, on[n] = n, append(on[n], pod)
			for i, claim := range open {
				claim = claim.DeepCopy()
				claim.Status.Allocation = &results[i]
				places[pod].Claims, made[claim.Name], allocated = append(places[pod].Claims, claim), claim, append(allocated, claim)
			}
			break
		}
	}
	return &gang.Result{Places: places}
}

// inTree reports whether kube-scheduler's own plugin places as many pods as are needed. It does not know constraints across pods.
func (s *small) inTree(t *testing.T) bool {
	t.Helper()
	r := s.oneByOne(t, s.allocateInTree(t))
	return r.Placed() >= s.least && s.verify(r) == nil
}

func devicesOf(r *gang.Result) string {
	var text strings.Builder
	for pod, place := range r.Places {
		fmt.Fprintf(&text, "pod %d on %d:", pod, place.Node)
		for _, claim := range place.Claims {
			text.WriteString(" " + claim.Name)
			for _, result := range claim.Status.Allocation.Devices.Results {
				fmt.Fprintf(&text, " %s %s/%s %v", result.Request, result.Pool, result.Device, ptr.Deref(result.AdminAccess, false))
			}
		}
		text.WriteString("; ")
	}
	return text.String()
}

func (s *small) shares() bool {
	seen := make(map[int]bool)
	for _, own := range s.pods {
		for _, c := range own {
			if seen[c] {
				return true
			}
			seen[c] = true
		}
	}
	return false
}

// TestLikeEnumeration compares small cases with all there is, each feature alone and together. GANG_CASES says how many of each. With
// GANG_MISSES=1 it prints those that fit and are not placed, with GANG_IN_TREE=1 it asks kube-scheduler's own plugin, too.
func TestLikeEnumeration(t *testing.T) {
	cases := 600
	if text := os.Getenv("GANG_CASES"); text != "" {
		var err error
		if cases, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		features
	}{
		{"lists", features{lists: true}},
		{"counters", features{counters: true, lists: true}},
		{"matches", features{matches: true, lists: true}},
		{"shared claims", features{shared: true, lists: true}},
		{"devices for all nodes", features{network: true, lists: true, counters: true}},
		{"CPU", features{cpu: true, lists: true, counters: true}},
		{"kinds", features{kinds: true, lists: true, counters: true}},
		{"fewer than all", features{least: true, lists: true, counters: true}},
		{"nodes that do not suit", features{away: true, lists: true, counters: true}},
		{"nodes of their own", features{counters: true, lists: true, matches: true, shared: true, cpu: true, kinds: true, least: true, away: true}},
		{"admin access", features{admin: true, lists: true}},
		{"admin access, counters", features{admin: true, lists: true, counters: true, kinds: true}},
		{"constraint across pods", features{across: true}},
		{"constraint across pods, lists", features{across: true, lists: true, counters: true}},
		{"all on nodes of their own", features{counters: true, lists: true, matches: true, shared: true, cpu: true, kinds: true, least: true, away: true, across: true}},
		{"all but a constraint across pods", features{true, true, true, true, true, true, true, true, true, false, true}},
		{"all", features{true, true, true, true, true, true, true, true, true, true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var count tally
			for seed := range cases {
				drawSmall(rand.New(rand.NewPCG(uint64(seed), 28)), test.features).check(t, &count)
			}
			share := func(n int) float64 { return 100 * float64(n) / float64(max(1, count.fit)) }
			t.Logf("%+v: of those that fit, %.1f %% are placed one after the other, %.1f %% by Ask", count, share(count.oneByOne), share(count.fit-count.missed))
			if os.Getenv("GANG_IN_TREE") != "" {
				t.Logf("kube-scheduler's own plugin places %.1f %%", share(count.inTree))
			}
			if share(count.missed) > 1 {
				t.Errorf("too many are missed: %+v", count)
			}
			if 500*count.undecided > max(500, count.cases) {
				t.Errorf("too many are not decided: %+v", count)
			}
			if count.fit == 0 || count.exact == 0 || count.joint == 0 && test.counters {
				t.Errorf("the cases are too easy: %+v", count)
			}
		})
	}
}
