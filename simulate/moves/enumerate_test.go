// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// enumeration tries all sets of pods, all orders and all nodes, on Sims.
type enumeration struct {
	*testing.T
	*moves.Question
	sim   *simulate.Sim
	nodes []simulate.Node
	pods  []*corev1.Pod
	// value is what a position is worth after all pods of a set have moved, negative if it will not do.
	value func() int
	find  bool // all values that will do are as good
	room  int
	at    map[*corev1.Pod]string // where pods that moved are
	got   map[*corev1.Pod]string // the devices of these pods
	known map[string]int         // by position: the highest value that it leads to
}

// newEnumeration reads the State. A Goal that is not nil is that of Free.
func newEnumeration(t *testing.T, state *simulate.State, q *moves.Question, goal *moves.Goal) *enumeration {
	e := &enumeration{T: t, Question: q, sim: state.Sim(), find: goal == nil, at: make(map[*corev1.Pod]string), got: make(map[*corev1.Pod]string)}
	for _, name := range q.Nodes {
		node, err := state.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		e.nodes = append(e.nodes, node)
		e.pods = slices.AppendSeq(e.pods, state.Pods(node))
	}
	e.pods = slices.DeleteFunc(e.pods, func(pod *corev1.Pod) bool { return math.IsInf(q.Cost(pod), 1) })
	switch {
	case goal != nil:
		e.value = func() int { return e.free(*goal) }
	case q.Gang || len(q.Topologies) > 0:
		e.value = e.together
	default:
		e.value = func() int { return e.wanted(q.Wanted) }
	}
	return e
}

// free counts the empty nodes, or the whole devices of which nothing is in use.
func (e *enumeration) free(goal moves.Goal) (n int) {
	state := e.sim.State()
	for _, node := range e.nodes {
		if goal == moves.Nodes {
			n++
			for range state.Pods(node) {
				n--
				break
			}
			continue
		}
		for _, use := range state.Devices(node) {
			if use.Whole && use.Free {
				n++
			}
		}
	}
	return n
}

func (e *enumeration) together() int {
	demands, err := e.sim.State().Demands(e.Wanted)
	if err != nil {
		e.Fatal(err)
	}
	e.sim.Fork()
	defer e.sim.Revert()
	result, err := e.sim.Gang(e.Context(), demands, e.Topologies, simulate.Real(nil), simulate.FirstFit)
	if err != nil || result.Undecided > 0 {
		e.Fatal(result.Undecided, err)
	}
	if !result.All() {
		return -1
	}
	return 1
}

func (e *enumeration) wanted(pods []*corev1.Pod) int {
	if len(pods) == 0 {
		return 1
	}
	for _, node := range e.nodes {
		e.sim.Fork()
		fits := e.put(pods[0], node) && e.wanted(pods[1:]) > 0
		e.sim.Revert()
		if fits {
			return 1
		}
	}
	return -1
}

// put puts a pod on a node.
func (e *enumeration) put(pod *corev1.Pod, node simulate.Node) bool {
	result, err := e.sim.Put(e.Context(), pod, node)
	if err != nil || result.Undecided > 0 {
		e.Fatal(result.Undecided, err)
	}
	e.at[pod], e.got[pod] = node.Name(), ""
	for placement := range result.Placements() {
		claims, err := placement.Claims(e.Context())
		if err != nil {
			e.Fatal(err)
		}
		for _, claim := range claims {
			for _, device := range claim.Status.Allocation.Devices.Results {
				e.got[pod] += device.Device + " "
			}
		}
	}
	return result.All()
}

// position is a key for where the pods are, and which devices are left: those that have moved stay where they are.
func (e *enumeration) position(old, out []*corev1.Pod) string {
	var key strings.Builder
	for _, list := range [][]*corev1.Pod{old, out} {
		for _, pod := range list {
			key.WriteString(pod.Name + ",")
		}
		key.WriteString("|")
	}
	for _, pod := range e.pods {
		key.WriteString(e.at[pod] + " " + e.got[pod] + ",")
	}
	state := e.sim.State()
	for _, node := range e.nodes {
		room, err := state.Room(node)
		if err != nil {
			e.Fatal(err)
		}
		fmt.Fprintf(&key, "%v", room.Devices())
	}
	return key.String()
}

// reaches is the highest value of all positions after some pods have left their nodes for others, and those that are out have come back.
func (e *enumeration) reaches(old, out []*corev1.Pod) int {
	if len(old)+len(out) == 0 {
		return e.value()
	}
	key := e.position(old, out)
	if best, found := e.known[key]; found {
		return best
	}
	best := -1
	comes := func(pod *corev1.Pod, old, out []*corev1.Pod) {
		for _, node := range e.nodes {
			e.sim.Fork()
			if e.put(pod, node) {
				best = max(best, e.reaches(old, out))
			}
			delete(e.at, pod)
			delete(e.got, pod)
			e.sim.Revert()
		}
	}
	without := func(list []*corev1.Pod, i int) []*corev1.Pod { return slices.Concat(list[:i], list[i+1:]) }
	for i, pod := range out {
		comes(pod, old, without(out, i))
	}
	for i, pod := range old {
		if !e.permits(append(slices.Clone(out), pod)) {
			continue
		}
		e.sim.Fork()
		if err := e.sim.Evict(pod); err != nil {
			e.Fatal(err)
		}
		comes(pod, without(old, i), out)
		if len(out) < e.room {
			best = max(best, e.reaches(without(old, i), append(slices.Clone(out), pod)))
		}
		e.sim.Revert()
	}
	e.known[key] = best
	return best
}

// permits reports whether the limits let these pods be without a place.
func (e *enumeration) permits(out []*corev1.Pod) bool {
	for _, limit := range e.Limits {
		n := 0
		for _, pod := range out {
			if slices.Contains(limit.Pods, pod) {
				n++
			}
		}
		if n > limit.Out {
			return false
		}
	}
	return true
}

// reachesWith is the highest value that a set leads to with room for so many.
func (e *enumeration) reachesWith(set []*corev1.Pod, room int) int {
	e.room, e.known = room, make(map[string]int)
	return e.reaches(set, nil)
}

// best is the highest value, then what it costs at least, then with how much room.
func (e *enumeration) best() (value int, least float64, room int) {
	value, least = -1, math.Inf(1)
	for members := range 1 << len(e.pods) {
		var set []*corev1.Pod
		total := 0.0
		for i, pod := range e.pods {
			if members>>i&1 == 1 {
				set, total = append(set, pod), total+e.Cost(pod)
			}
		}
		if e.find && total > least+1e-9 {
			continue
		}
		all := bits.OnesCount(uint(members))
		for k := range all + 1 {
			got := e.reachesWith(set, k)
			if k == 0 && got < value && e.reachesWith(set, all) < value {
				break // more room than for all of them does not help
			}
			if got > value || got == value && got >= 0 && (total < least-1e-9 || total < least+1e-9 && k < room) {
				value, least, room = got, total, k
			}
		}
	}
	return value, least, room
}

// cases are the seeds of random questions: those from one number to another, or those that DRAY_MOVES names as FIRST-END.
func cases(t *testing.T, from, to uint64) (first, end uint64) {
	text := os.Getenv("DRAY_MOVES")
	if text == "" {
		return from, to
	}
	low, high, _ := strings.Cut(text, "-")
	first, err := strconv.ParseUint(low, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if end, err = strconv.ParseUint(high, 10, 64); err != nil {
		t.Fatal(err)
	}
	return first, end
}

// Plans for clusters with partitions, several claims, alternatives, fractions as costs, limits and groups are those of an enumeration, for all goals.
func TestMixedLikeEnumeration(t *testing.T) {
	seen := make(map[string]int)
	first, end := cases(t, 780, 880)
	for seed := first; seed < end; seed++ {
		m := newMixed(seed)
		empty, sim, pods := m.filled(t)
		state, q := m.question(t, empty, sim, pods)
		switch m.random.IntN(4) {
		case 0:
			m.compareFree(t, seed, state, &q, moves.Nodes, seen)
		case 1:
			m.compareFree(t, seed, state, &q, moves.WholeDevices, seen)
		default:
			q.Gang = seed%2 == 0
			m.compareFind(t, seed, state, &q, seen)
		}
		for _, kind := range m.kinds {
			seen["kind "+kind]++
		}
	}
	t.Log(seen)
	for _, kind := range []string{
		"impossible", "nothing to do", "1 moves", "room for 0", "moves for a group", "moves for a gang", "a fraction", "goal 0, 1 more", "goal 1, 1 more",
		"kind half", "kind model", "kind pair", "kind claims", "kind list", "kind cpu", "kind free-choice", "kind shared", "kind remote",
	} {
		if seen[kind] == 0 {
			t.Errorf("no question had: %s", kind)
		}
	}
	// Gangs whose devices several nodes reach have no proof.
	if open := seen["not exact"] - seen["a gang without proof"]; open*5 > int(end-first) {
		t.Errorf("%d of %d plans are not exact, want one of five at most beside those for gangs", open, end-first)
	}
	if open := seen["a gang without proof"]; open*10 > int(end-first) {
		t.Errorf("%d of %d plans are for gangs and not exact, want one of ten at most", open, end-first)
	}
}

func (m *mixed) compareFind(t *testing.T, seed uint64, state *simulate.State, q *moves.Question, seen map[string]int) {
	plan, err := moves.Find(t.Context(), state, *q)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	value, least, room := newEnumeration(t, state, q, nil).best()
	told := fmt.Sprintf("possible %t, costs %v, at least %v, room for %d; by enumeration it is %t and costs %v with room for %d", plan.Possible, plan.Cost, plan.Bound, plan.Room, value > 0, least, room)
	switch {
	case !plan.Exact():
		seen["not exact"]++
		if q.Gang && len(q.Wanted) > 1 {
			seen["a gang without proof"]++
		}
		if plan.Possible && plan.Cost < least-1e-9 || plan.Bound > least+1e-9 {
			t.Errorf("seed %d: %s", seed, told)
		}
	case plan.Possible != (value > 0) || plan.Possible && (math.Abs(plan.Cost-least) > 1e-9 || plan.Room < room):
		t.Errorf("seed %d: %s", seed, told)
	case plan.Possible && plan.Room > room:
		seen["more room"]++
	}
	few := *q
	few.Sets, few.Attempts = 1+int(seed%3), 1+int(seed%7)
	if bounded, err := moves.Find(t.Context(), state, few); err != nil || bounded.Bound > least+1e-9 || bounded.Possible && bounded.Cost < least-1e-9 {
		t.Errorf("seed %d: bounded: possible %t, costs %v, at least %v, %v; by enumeration it is %t and costs %v", seed, bounded.Possible, bounded.Cost, bounded.Bound, err, value > 0, least)
	}
	switch {
	case !plan.Possible:
		seen["impossible"]++
	case len(plan.Pods) == 0:
		seen["nothing to do"]++
	default:
		seen[fmt.Sprintf("%d moves", len(plan.Pods))]++
		seen[fmt.Sprintf("room for %d", plan.Room)]++
		switch {
		case len(q.Topologies) > 0:
			seen["moves for a group"]++
		case q.Gang && len(q.Wanted) > 1:
			seen["moves for a gang"]++
		}
		if plan.Cost != math.Trunc(plan.Cost) {
			seen["a fraction"]++
		}
	}
}

func (m *mixed) compareFree(t *testing.T, seed uint64, state *simulate.State, q *moves.Question, goal moves.Goal, seen map[string]int) {
	plan, err := moves.Free(t.Context(), state, goal, *q)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	value, least, room := newEnumeration(t, state, q, &goal).best()
	told := fmt.Sprintf("goal %d: %d of at most %d free, costs %v, at least %v, room for %d; by enumeration %d are free, it costs %v with room for %d", goal, plan.After, plan.Most, plan.Cost, plan.Bound, plan.Room, value, least, room)
	switch {
	case !plan.Exact():
		seen["not exact"]++
		if plan.After > value || plan.Most < value || plan.After == value && (plan.Cost < least-1e-9 || plan.Bound > least+1e-9) {
			t.Errorf("seed %d: %s", seed, told)
		}
	case plan.After != value || math.Abs(plan.Cost-least) > 1e-9 || plan.Room < room:
		t.Errorf("seed %d: %s", seed, told)
	case plan.Room > room:
		seen["more room"]++
	}
	few := *q
	few.Sets, few.Attempts = 1+int(seed%3), 1+int(seed%7)
	if b, err := moves.Free(t.Context(), state, goal, few); err != nil || b.After > value || b.Most < value || b.After == value && (b.Cost < least-1e-9 || b.Bound > least+1e-9) {
		t.Errorf("seed %d: bounded: goal %d: %d of at most %d free, costs %v, at least %v, %v; by enumeration %d are free, it costs %v", seed, goal, b.After, b.Most, b.Cost, b.Bound, err, value, least)
	}
	seen[fmt.Sprintf("goal %d, %d more", goal, plan.After-plan.Before)]++
}

// filled puts pods on nodes at random, and lets some of them go.
func (m *mixed) filled(t *testing.T) (empty *simulate.State, sim *simulate.Sim, run []*corev1.Pod) {
	state, err := simulate.Open(m.Cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	sim = state.Sim()
	for i := range 4 + m.random.IntN(4) {
		node, err := state.Node(m.Nodes[m.random.IntN(len(m.Nodes))].Name)
		if err != nil {
			t.Fatal(err)
		}
		pod := m.pod(fmt.Sprintf("runs-%d", i))
		result, err := sim.Put(t.Context(), pod, node)
		if err != nil {
			t.Fatal(err)
		}
		if result.All() {
			run = append(run, pod)
		}
	}
	for len(run) > 4 || len(run) > 3 && m.random.IntN(3) > 0 || len(run) > 1 && m.random.IntN(4) == 0 {
		i := m.random.IntN(len(run))
		if err := sim.Evict(run[i]); err != nil {
			t.Fatal(err)
		}
		run = slices.Delete(run, i, i+1)
	}
	return state, sim, run
}
