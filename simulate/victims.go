package simulate

import (
	"cmp"
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/subsets"
)

// VictimSet is pods of a node that have to go for another pod to fit there.
type VictimSet struct {
	Node Node
	// Pods is empty if the pod fits as it is.
	Pods []*corev1.Pod
	Cost float64
	// Least is set if no other set on the node costs less. Otherwise the budget ended the proof, or
	// an answer on the way was undecided.
	Least bool
}

// maxVictimSets is how many sets are tried on one node before the proof is given up.
const maxVictimSets = 4096

// Victims lists the cheapest sets of pods that have to go for a pod of a shape to fit, up to n sets on
// different real nodes, cheapest first, then in the order of the nodes. A pod of which the cost is
// infinite, negative or not a number stays. Devices of a claim that other pods use as well are not
// freed. The number of sets that are tried is bounded for each node. The error is the context's.
func (s *State) Victims(ctx context.Context, shape *Shape, on Nodes, cost func(*corev1.Pod) float64, n int) ([]VictimSet, error) {
	s = s.seen()
	c, err := s.world.NewCall(ctx)
	if err != nil {
		return nil, err
	}
	if shape, err = shape.in(s.world); err != nil {
		return nil, err
	}
	var found []VictimSet
	for _, part := range on.list() {
		for i, rec := range s.data.realIn(part) {
			v := &victims{state: s, call: &c, shape: shape, node: Node{index: i, name: rec.facts.Node.Name}}
			v.add(rec, cost)
			set, err := v.cheapest()
			if err != nil {
				return nil, err
			}
			if set != nil {
				found = append(found, *set)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b VictimSet) int { return cmp.Compare(a.Cost, b.Cost) })
	return found[:min(len(found), max(0, n))], nil
}

// victims looks for the cheapest set on one node.
type victims struct {
	state  *State
	call   *onenode.Call
	shape  *Shape
	node   Node
	pods   []victim // cheapest first
	doubts bool
}

type victim struct {
	*podEntry
	cost float64
}

func (v *victims) add(rec *nodeRecord, cost func(*corev1.Pod) float64) {
	for entry := rec.pods; entry != nil; entry = entry.before {
		if c := cost(entry.pod); c >= 0 && !math.IsInf(c, 1) {
			v.pods = append(v.pods, victim{entry, c})
		}
	}
	slices.Reverse(v.pods) // in the order in which they were placed
	slices.SortStableFunc(v.pods, func(a, b victim) int { return cmp.Compare(a.cost, b.cost) })
}

// cheapest tries sets in the order of what they cost. The first that suffices is the cheapest.
func (v *victims) cheapest() (*VictimSet, error) {
	if ok, err := v.suffices(nil); ok || err != nil {
		return v.set(nil, true), err
	}
	all := make([]int, len(v.pods))
	for i := range all {
		all[i] = i
	}
	if ok, err := v.suffices(all); !ok || err != nil {
		return nil, err
	}
	costs := make([]float64, len(v.pods))
	for i := range v.pods {
		costs[i] = v.pods[i].cost
	}
	tried := 0
	for members := range subsets.ByCost(costs) {
		if tried++; tried > maxVictimSets {
			break
		}
		ok, err := v.suffices(members)
		if err != nil {
			return nil, err
		}
		if ok {
			return v.set(members, !v.doubts), nil
		}
	}
	return v.reduced(all)
}

// reduced gives pods back, the dearest first, as long as the rest suffices.
func (v *victims) reduced(members []int) (*VictimSet, error) {
	for i := len(members) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(members), i, i+1)
		ok, err := v.suffices(without)
		if err != nil {
			return nil, err
		}
		if ok {
			members = without
		}
	}
	return v.set(members, false), nil
}

func (v *victims) set(members []int, least bool) *VictimSet {
	set := &VictimSet{Node: v.node, Least: least}
	for _, i := range members {
		set.Pods = append(set.Pods, v.pods[i].pod)
		set.Cost += v.pods[i].cost
	}
	return set
}

// suffices reports whether the pod fits once some pods are gone.
func (v *victims) suffices(members []int) (bool, error) {
	m := v.state.Sim()
	for _, i := range members {
		m.evict(v.node, v.pods[i].podEntry)
	}
	a := m.data.asked(m.world, v.shape.kind)
	if a.refused != nil {
		return false, nil //nolint:nilerr // such a pod fits nowhere
	}
	rec, _ := m.data.record(v.node)
	answer, _, err := a.on(v.call, &m.data, v.node, &rec)
	if err != nil {
		return false, err
	}
	v.doubts = v.doubts || answer.Verdict == onenode.Undecided || answer.Verdict == onenode.Failed
	return answer.Verdict == onenode.Fits, nil
}

// evict takes a pod from a node that stays.
func (m *Sim) evict(n Node, entry *podEntry) {
	rec := m.edit(n)
	rec.state = rec.state.Change(entry.taken.Own, false)
	fromDevices, _ := m.world.fromDevices(podclaims.ExtendedResources(entry.pod), rec.facts.Node)
	rec.used = addAmounts(rec.used, m.world.needs(entry.pod, fromDevices), -1)
	m.release(entry)
	m.freed()
}
