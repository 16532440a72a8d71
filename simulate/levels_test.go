// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dray-project/dray/simulate"
)

// levels are parts whose nodes are in racks of zones, for a gang with a limit for each node.
type levels struct {
	*parts
	rack    []string // of nodes, empty without one
	perNode []int    // by pod: how many of its demand may be on a node
	demand  []int    // by pod
	chain   []simulate.Topology
}

var (
	zone          = simulate.Topology{NodeLabel: "zone"}
	rack          = simulate.Topology{NodeLabel: "rack"}
	preferredZone = simulate.Topology{NodeLabel: "zone", Preferred: true}
	preferredRack = simulate.Topology{NodeLabel: "rack", Preferred: true}
	// chains are by how they are used: none, one level, a level that is preferred in one that is required, the innermost that fits.
	chains = [][]simulate.Topology{nil, {zone}, {rack}, {zone, rack}, {zone, preferredRack}, {preferredZone, preferredRack}, {preferredRack}}
)

func drawLevels(r *rand.Rand, limited, layered bool) *levels {
	l := &levels{parts: &parts{}}
	for range 1 + r.IntN(4) {
		var gpus []int
		for range 1 + r.IntN(2) {
			gpus = append(gpus, []int{2, 4}[r.IntN(2)])
		}
		l.gpus, l.cpu, l.zone = append(l.gpus, gpus), append(l.cpu, 1+r.IntN(5)), append(l.zone, r.IntN(2))
		l.rack = append(l.rack, []string{"r0", "r1", "r1", ""}[r.IntN(4)])
	}
	lists := [][]int{{2}, {1}, {4, 2}, {4, 2, 1}, {2, 1}, {4, 1}}
	for d := range 1 + r.IntN(2) {
		// Demands of different CPU do not come together.
		kind, most := partPod{wants: lists[r.IntN(len(lists))], cpu: 1 + d, zone: -1}, 0
		if limited {
			most = r.IntN(4)
		}
		for range 1 + r.IntN(4) {
			l.pods, l.demand, l.perNode = append(l.pods, kind), append(l.demand, d), append(l.perNode, most)
		}
	}
	if layered {
		l.chain = chains[1+r.IntN(len(chains)-1)]
	}
	return l
}

// values are those of a node, for topologies. It is false if the node has none of one.
func (l *levels) values(node int, t []simulate.Topology) (string, bool) {
	var list []string
	for _, topology := range t {
		value := l.rack[node]
		if topology.NodeLabel == "zone" {
			value = fmt.Sprint(l.zone[node])
		}
		if value == "" {
			return "", false
		}
		list = append(list, topology.NodeLabel+"="+value)
	}
	return strings.Join(list, ", "), true
}

// domains are those of topologies, in the order of their first nodes, each with its nodes.
func (l *levels) domains(t []simulate.Topology) (names []string, nodes map[string][]int) {
	nodes = make(map[string][]int)
	for n := range l.gpus {
		name, has := l.values(n, t)
		if !has {
			continue
		}
		if nodes[name] == nil {
			names = append(names, name)
		}
		nodes[name] = append(nodes[name], n)
	}
	return names, nodes
}

// most is how many pods from one on have a place on some nodes at most, if any may be left out. On has the nodes of those before.
func (l *levels) most(nodes []int, from int, on []int) int {
	if from == len(l.pods) {
		return 0
	}
	best := l.most(nodes, from+1, append(on, -1))
	for _, n := range nodes {
		if !l.mayBeOn(n, from, on) {
			continue
		}
		for g := range l.gpus[n] {
			for _, want := range l.pods[from].wants {
				if best == len(l.pods)-from || l.gpus[n][g] < want {
					continue
				}
				l.gpus[n][g], l.cpu[n] = l.gpus[n][g]-want, l.cpu[n]-l.pods[from].cpu
				best = max(best, 1+l.most(nodes, from+1, append(on, n)))
				l.gpus[n][g], l.cpu[n] = l.gpus[n][g]+want, l.cpu[n]+l.pods[from].cpu
			}
		}
	}
	return best
}

func (l *levels) mayBeOn(node, pod int, on []int) bool {
	there := 0
	for other, n := range on {
		if n == node && l.demand[other] == l.demand[pod] {
			there++
		}
	}
	return l.cpu[node] >= l.pods[pod].cpu && (l.perNode[pod] == 0 || there < l.perNode[pod])
}

// inTurn is how many pods have a place one after the other, each the first there is, until one has none.
func (l *levels) inTurn(nodes []int) int {
	var on []int
	gpus, cpu := make([][]int, len(l.gpus)), slices.Clone(l.cpu)
	for n := range gpus {
		gpus[n] = slices.Clone(l.gpus[n])
	}
	defer func() { l.gpus, l.cpu = gpus, cpu }()
	for pod := range l.pods {
		found := -1
		for _, n := range nodes {
			if found < 0 && l.mayBeOn(n, pod, on) && l.takeFirst(n, l.pods[pod].wants) {
				found = n
				l.cpu[n] -= l.pods[pod].cpu
			}
		}
		if found < 0 {
			return pod
		}
		on = append(on, found)
	}
	return len(l.pods)
}

func (l *levels) takeFirst(node int, wants []int) bool {
	for _, want := range wants {
		for g := range l.gpus[node] {
			if l.gpus[node][g] >= want {
				l.gpus[node][g] -= want
				return true
			}
		}
	}
	return false
}

func (l *levels) open(t *testing.T, o simulate.Options) (*simulate.State, []simulate.Demand) {
	c := l.cluster()
	for n, name := range l.rack {
		if name != "" {
			c.Nodes[n].Labels["rack"] = name
		}
	}
	state := open(t, c, o)
	demands := l.demands(t, state)
	first := 0
	for i := range demands {
		demands[i].PerNode = l.perNode[first]
		first += demands[i].Count
	}
	return state, demands
}

// levelCases is how many cases there are of each kind, which GANG_CASES says.
func levelCases(t *testing.T) int {
	text := os.Getenv("GANG_CASES")
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// Pods of one demand may find more room after others have taken devices: they then take parts of devices
// instead of whole ones. So too little room for one demand does not exclude the gang.
func TestGangIsNotRefusedForOneDemandAlone(t *testing.T) {
	l := &levels{parts: &parts{gpus: [][]int{{4}, {4, 4}, {4, 2}}, cpu: []int{5, 4, 1}, zone: []int{0, 1, 1}}, rack: make([]string, 3), perNode: make([]int, 5)}
	l.pods, l.demand = []partPod{{wants: []int{1}, cpu: 1, zone: -1}}, []int{0, 1, 1, 1, 1}
	for range 4 {
		l.pods = append(l.pods, partPod{wants: []int{4, 1}, cpu: 2, zone: -1})
	}
	for _, oneByOne := range []bool{true, false} {
		state, demands := l.open(t, simulate.Options{GangsOneByOne: oneByOne})
		r, err := state.Sim().Gang(t.Context(), demands, nil, simulate.Real(nil), simulate.FirstFit)
		must(t, err)
		seen := make(map[string]int)
		if l.compareInTurn(t, fmt.Sprint("one by one ", oneByOne), &r, seen); seen["in turn"] != 1 {
			t.Errorf("one by one %t: it is not placed in turn: %v", oneByOne, seen)
		}
	}
}

// A gang is placed in the first domain of the innermost level in which there is a way, with its limits. Without a way anywhere, the
// domain that is named has a place for as many pods as is said, and none has for more.
func TestGangLevelsByEnumeration(t *testing.T) {
	for name, kind := range map[string]struct{ limited, layered bool }{"limit": {true, false}, "levels": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			seen := make(map[string]int)
			for seed := range levelCases(t) {
				l := drawLevels(rand.New(rand.NewPCG(uint64(seed), 29)), kind.limited, kind.layered)
				state, demands := l.open(t, simulate.Options{})
				policy := simulate.FirstFit
				if seed%4 == 0 {
					policy = simulate.Spread
				}
				r, err := state.Sim().Gang(t.Context(), demands, l.chain, simulate.Real(nil), policy)
				must(t, err)
				l.compare(t, fmt.Sprint(name, " ", seed), &r, seen)
				if seed%4 == 0 {
					continue
				}
				state, demands = l.open(t, simulate.Options{GangsOneByOne: true})
				r, err = state.Sim().Gang(t.Context(), demands, l.chain, simulate.Real(nil), simulate.FirstFit)
				must(t, err)
				l.compareInTurn(t, fmt.Sprint(name, " ", seed), &r, seen)
			}
			for _, kind := range []string{"placed", "refused", "named", "in turn"} {
				if seen[kind] < 20 {
					t.Errorf("%s: only %d gangs; seen %v", kind, seen[kind], seen)
				}
			}
			if kind.layered && (seen["given up"] < 10 || seen["innermost"] < 10) {
				t.Errorf("too few gave up a level, or kept all: %v", seen)
			}
			t.Log(seen)
		})
	}
}

// kept are the lists of topologies that are tried, one after the other.
func (l *levels) kept() [][]simulate.Topology {
	list := [][]simulate.Topology{l.chain}
	for n := len(l.chain); n > 0 && l.chain[n-1].Preferred; n-- {
		list = append(list, l.chain[:n-1])
	}
	return list
}

func (l *levels) compare(t *testing.T, where string, r *simulate.Result, seen map[string]int) {
	t.Helper()
	if r.Undecided > 0 || r.NoProof {
		t.Fatalf("%s: undecided %d, no proof %t", where, r.Undecided, r.NoProof)
	}
	kept := l.kept()
	for k, chain := range kept {
		_, nodes := l.domains(chain)
		fit := make(map[string]bool)
		for name, list := range nodes {
			if l.most(list, 0, nil) == len(l.pods) {
				fit[name] = true
			}
		}
		if len(fit) == 0 {
			continue
		}
		got := inCommon(r.Domain)
		if !r.All() || len(r.Domain) != len(chain) || !fit[got] || r.Closest != nil {
			t.Fatalf("%s: placed %d of %d in %q, fits in %v; %+v", where, r.Placed, len(l.pods), got, fit, l.parts)
		}
		l.holds(t, where, r, chain, got)
		seen["placed"]++
		if k > 0 {
			seen["given up"]++
		} else if len(chain) > 0 && chain[len(chain)-1].Preferred {
			seen["innermost"]++
		}
		return
	}
	if r.All() || r.Domain != nil {
		t.Fatalf("%s: it is placed, and there is no way to; %+v", where, l.parts)
	}
	seen["refused"]++
	names, nodes := l.domains(kept[len(kept)-1])
	if len(names) == 0 {
		if r.Closest != nil {
			t.Fatalf("%s: there is no domain, and closest is %v", where, r.Closest)
		}
		return
	}
	name := inCommon(r.Closest.Domain)
	if most := l.most(nodes[name], 0, nil); nodes[name] == nil || r.Closest.Placed > most || r.Closest.Pods != len(l.pods) {
		t.Fatalf("%s: %v, by enumeration %d fit there", where, r.Closest, most)
	}
	seen["named"]++
}

// compareInTurn compares with pods that are placed one after the other.
func (l *levels) compareInTurn(t *testing.T, where string, r *simulate.Result, seen map[string]int) {
	t.Helper()
	kept := l.kept()
	for _, chain := range kept {
		names, nodes := l.domains(chain)
		for _, name := range names {
			if l.inTurn(nodes[name]) == len(l.pods) {
				if got := inCommon(r.Domain); !r.All() || got != name {
					t.Fatalf("%s: one after the other they are in %q, in turn %q", where, got, name)
				}
				l.holds(t, where, r, chain, name)
				seen["in turn"]++
				return
			}
		}
	}
	names, nodes := l.domains(kept[len(kept)-1])
	best, most := "", -1
	for _, name := range names {
		if n := l.inTurn(nodes[name]); n > most {
			best, most = name, n
		}
	}
	if r.All() || most >= 0 && (inCommon(r.Closest.Domain) != best || r.Closest.Placed != most) {
		t.Fatalf("%s: %v is closest, in turn it is %q with %d", where, r.Closest, best, most)
	}
}

// holds checks the places of a gang.
func (l *levels) holds(t *testing.T, where string, r *simulate.Result, chain []simulate.Topology, domain string) {
	t.Helper()
	on := make(map[[2]int]int)
	pod := 0
	for placement := range r.Placements() {
		var node int
		_, err := fmt.Sscanf(placement.Node.Name(), "node-%d", &node)
		must(t, err)
		if name, _ := l.values(node, chain); name != domain {
			t.Fatalf("%s: a pod is in %q", where, name)
		}
		_, err = fmt.Sscanf(placement.Pod.Name, "pod-%d", &pod)
		must(t, err)
		at := [2]int{node, l.demand[pod]}
		if on[at]++; l.perNode[pod] > 0 && on[at] > l.perNode[pod] {
			t.Fatalf("%s: %d pods are on node %d, no more than %d may be", where, on[at], node, l.perNode[pod])
		}
	}
}

func inCommon(list []simulate.InCommon) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].String()
	}
	return strings.Join(names, ", ")
}

// The text about the domain that comes closest, and about nodes with as many pods as allowed.
func TestGangClosestInWords(t *testing.T) {
	l := &levels{parts: &parts{}, demand: make([]int, 16), perNode: slices.Repeat([]int{1}, 16)}
	for n := range 20 {
		l.gpus, l.cpu, l.zone = append(l.gpus, []int{2}), append(l.cpu, 8), append(l.zone, n%2)
		l.rack = append(l.rack, []string{"r1", "r3", "r3", "r3", "r3"}[n%5])
	}
	l.gpus, l.cpu, l.zone, l.rack = l.gpus[:18], l.cpu[:18], l.zone[:18], l.rack[:18]
	for range 16 {
		l.pods = append(l.pods, partPod{wants: []int{1}, cpu: 1, zone: -1})
	}
	state, demands := l.open(t, simulate.Options{})
	r, err := state.Sim().Gang(t.Context(), demands, []simulate.Topology{rack}, simulate.Real(nil), simulate.FirstFit)
	must(t, err)
	if got := r.Closest.String(); got != "rack=r3 comes closest: 14 of 16 pods" {
		t.Errorf("closest: %s", got)
	}
	why, err := r.Why(t.Context())
	if must(t, err); len(why) != 1 || why[0].String() != "2 pods like default/pod-0 not placed: 14 nodes: 1 pod of the gang already, and no more may be there" {
		t.Errorf("why: %s", why[0].String())
	}
	r, err = state.Sim().Gang(t.Context(), append(demands, demands[0]), nil, simulate.Real(nil), simulate.FirstFit)
	must(t, err)
	if !r.All() {
		t.Errorf("two demands of a shape have a limit each: placed %d", r.Placed)
	}
	demands[0].Count = 19
	r, err = state.Sim().Gang(t.Context(), demands, nil, simulate.Real(nil), simulate.FirstFit)
	if must(t, err); r.All() || r.Closest.String() != "18 of 19 pods have a place" {
		t.Errorf("closest: %s", r.Closest)
	}
	template, err := state.TemplateOf("node-0", nil)
	must(t, err)
	r, err = state.Sim().Gang(t.Context(), demands, nil, simulate.New(template, 0), simulate.FirstFit)
	if must(t, err); !r.All() || len(r.NotLookedAt) > 0 {
		t.Errorf("on new nodes, %d are placed", r.Placed)
	}
	on := make(map[string]int)
	for placement := range r.Placements() {
		on[placement.Node.Name()]++
	}
	if len(on) != 19 {
		t.Errorf("19 pods are on %d new nodes, one may be on each", len(on))
	}
}
