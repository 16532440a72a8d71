// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/simulate"
)

// chains searches for plans in which a pod takes the place of others, these take the place of others again, and so on until all fit. It is a
// best-first search by the cost so far plus the prices of the places that are still needed.
type chains struct {
	*finder
	prices []float64 // by kind: estimated cost of a place
	least  float64   // lower bound of the cost of any plan
	// domain has the nodes for the wanted pods; nil is all nodes.
	domain sets.Set[simulate.Node]
	byKind map[int]*offers // of the State
	open   queue
	looks  int // number of expanded positions
	serial int
}

// position is a node of the search tree: some pods are evicted, and not all of them have a new node.
type position struct {
	state *simulate.State
	// waiting are pods without a place, the dearest first: positions in finder.pods, or behind them in Wanted.
	waiting []int
	last    *taken
	cost    float64
	// likely is cost plus the prices of places for the waiting pods.
	likely float64
	serial int // of two positions with equal likely, the later is expanded first
}

// taken is a pod placed on a node, with those placed before it.
type taken struct {
	pod    int
	node   simulate.Node
	before *taken
}

const (
	// manyLooks is the largest number of expanded positions per domain, manyDomains the largest number of domains.
	manyLooks   = 300
	manyDomains = 8
	// atFirst and later are the numbers of victim sets that are tried for a pod in the first step and in later ones.
	atFirst = 16
	later   = 4
	// fewFree is the number of nodes with enough room that are tried for a pod.
	fewFree = 4
)

// run searches the domains with the least estimated cost.
func (c *chains) run(ctx context.Context, domains []domain) error {
	order := make([]estimate, len(domains))
	for i, d := range domains {
		order[i].domain = d
		if len(domains) > 1 {
			var err error
			if order[i].cost, err = c.likelyIn(ctx, d); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(order, func(a, b estimate) int { return cmp.Compare(a.cost, b.cost) })
	for _, e := range order[:min(len(order), manyDomains)] {
		if math.IsInf(e.cost, 1) || c.best.Possible && e.cost >= c.best.Cost-slack {
			break
		}
		if c.domain = nil; len(domains) > 1 {
			c.domain = sets.New(e.domain...)
		}
		if err := c.runIn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// estimate is the estimated cost of placing the wanted pods in a domain.
type estimate struct {
	domain domain
	cost   float64
}

// likelyIn is the cost of the cheapest offers in a domain, each on another node. It is infinite if there are too few for a kind of pods.
func (c *chains) likelyIn(ctx context.Context, d domain) (cost float64, err error) {
	home := sets.New(d...)
	at := make(map[int]int) // by kind: offers that were passed
	for _, kind := range c.wantedKinds {
		all, err := c.offersFor(ctx, kind)
		if err != nil {
			return 0, err
		}
		i := at[kind]
		for i < len(all.free)+len(all.victims) && !home.Has(all.node(i)) {
			i++
		}
		switch {
		case i < len(all.free)+len(all.victims):
			cost += all.cost(i)
			at[kind] = i + 1
		case at[kind] == 0:
			return math.Inf(1), nil
		}
	}
	return cost, nil
}

// runIn searches for plans in the domain, from the position where only the wanted pods wait.
func (c *chains) runIn(ctx context.Context) error {
	start := &position{state: c.state}
	for i := range c.Wanted {
		start.waiting = append(start.waiting, len(c.pods)+i)
	}
	c.sort(start.waiting)
	c.open, c.looks = nil, 0
	c.push(start)
	for c.open.Len() > 0 && c.looks < manyLooks {
		at := heap.Pop(&c.open).(*position)
		// Each position that is taken from the list is followed to its end, so that there soon is a plan.
		for at != nil && c.promising(at) {
			c.looks++
			if len(at.waiting) == 0 {
				if err := c.end(ctx, at); err != nil {
					return err
				}
				break
			}
			next, err := c.next(ctx, at)
			if err != nil {
				return err
			}
			slices.SortStableFunc(next, func(a, b *position) int { return cmp.Compare(a.likely, b.likely) })
			if at = nil; len(next) > 0 {
				at = next[0]
				for _, other := range slices.Backward(next[1:]) {
					c.push(other)
				}
			}
		}
	}
	return nil
}

func (c *chains) push(at *position) {
	c.serial++
	at.serial = c.serial
	heap.Push(&c.open, at)
}

// promising reports whether a position may lead to a better plan.
func (c *chains) promising(at *position) bool {
	return !c.best.Possible || at.likely < c.best.Cost-slack && c.best.Cost > c.least
}

func (c *chains) pod(i int) *corev1.Pod {
	if i < len(c.pods) {
		return c.pods[i].Pod
	}
	return c.Wanted[i-len(c.pods)]
}

func (c *chains) kind(i int) int {
	if i < len(c.pods) {
		return c.pods[i].kind
	}
	return c.wantedKinds[i-len(c.pods)]
}

// next lists the positions after the first waiting pod is placed.
func (c *chains) next(ctx context.Context, at *position) ([]*position, error) {
	pod := at.waiting[0]
	here, elsewhere, err := c.offers(ctx, at, pod)
	if err != nil {
		return nil, err
	}
	free := slices.Concat(here.free, elsewhere.free)
	fullestFirst(at.state, free)
	for _, node := range free {
		if next, err := c.take(ctx, at, pod, &simulate.VictimSet{Node: node}); next != nil || err != nil {
			return []*position{next}, err
		}
	}
	width := later
	if at.last == nil {
		width = atFirst
	}
	var list []*position
	alike := make(map[string]bool)
	for h, e := 0, 0; len(list) < width && h+e < len(here.victims)+len(elsewhere.victims); {
		var set *simulate.VictimSet
		old := false
		if h < len(here.victims) && (e == len(elsewhere.victims) || here.victims[h].Cost <= elsewhere.victims[e].Cost) {
			set = &here.victims[h]
			h++
		} else {
			set, old = &elsewhere.victims[e], true
			e++
		}
		if old && at.touches(set.Node) || !c.permits(pod, set.Node) || c.pointless(pod, set) {
			continue
		}
		key := c.content(at, set)
		if alike[key] {
			continue
		}
		next, err := c.take(ctx, at, pod, set)
		if err != nil {
			return nil, err
		}
		if next != nil {
			alike[key] = true
			list = append(list, next)
		}
	}
	return list, nil
}

// pointless reports whether a pod would take the place of one with equal requests. That only adds a move: the other one could take the next place
// instead. It may make sense where the first has to be in a domain.
func (c *chains) pointless(pod int, set *simulate.VictimSet) bool {
	if pod >= len(c.pods) && c.domain != nil {
		return false
	}
	return slices.ContainsFunc(set.Pods, func(victim *corev1.Pod) bool { return c.pods[c.index[victim]].kind == c.kind(pod) })
}

// touches reports whether a pod was placed on a node since the start.
func (at *position) touches(node simulate.Node) bool {
	for t := at.last; t != nil; t = t.before {
		if t.node == node {
			return true
		}
	}
	return false
}

// permits reports whether the domain allows a pod on a node. Only wanted pods are restricted to the domain.
func (c *chains) permits(pod int, node simulate.Node) bool {
	return pod < len(c.pods) || c.domain == nil || c.domain.Has(node)
}

// content returns a key that is equal for nodes with the same utilization and with victims of the same kinds and costs.
func (c *chains) content(at *position, set *simulate.VictimSet) string {
	key := []string{fmt.Sprint(at.state.InUse(set.Node))}
	for _, pod := range set.Pods {
		m := &c.pods[c.index[pod]]
		key = append(key, fmt.Sprint(m.kind, " ", m.cost))
	}
	slices.Sort(key)
	return strings.Join(key, ",")
}

// take evicts the victims and puts a waiting pod on their node. It returns nil if the pod does not fit.
func (c *chains) take(ctx context.Context, at *position, pod int, set *simulate.VictimSet) (*position, error) {
	sim := at.state.Sim()
	if err := sim.Evict(set.Pods...); err != nil {
		return nil, err
	}
	result, err := c.put(ctx, sim, c.pod(pod), set.Node)
	if err != nil || !result.All() {
		return nil, err
	}
	next := &position{state: sim.State(), waiting: slices.Clone(at.waiting[1:]), last: &taken{pod: pod, node: set.Node, before: at.last}, cost: at.cost}
	for _, victim := range set.Pods {
		i := c.index[victim]
		next.waiting = append(next.waiting, i)
		next.cost += c.pods[i].cost
	}
	next.likely = next.cost
	for _, i := range next.waiting {
		next.likely += c.prices[c.kind(i)]
	}
	c.sort(next.waiting)
	return next, nil
}

// sort orders pods by price, the highest first, then by kind.
func (c *chains) sort(waiting []int) {
	slices.SortStableFunc(waiting, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.prices[c.kind(b)], c.prices[c.kind(a)]), cmp.Compare(c.kind(a), c.kind(b)))
	})
}

// offers are candidate nodes for a pod: those with enough room, the fullest first, and victim sets on others, the cheapest first.
type offers struct {
	free    []simulate.Node
	victims []simulate.VictimSet
}

// offers returns the candidates on nodes that changed since the start, and those elsewhere, which are the same as in the State.
func (c *chains) offers(ctx context.Context, at *position, pod int) (here, elsewhere *offers, err error) {
	kind := c.kind(pod)
	all, err := c.offersFor(ctx, kind)
	if err != nil {
		return nil, nil, err
	}
	moved := sets.New[*corev1.Pod]()
	var names []string
	for t := at.last; t != nil; t = t.before {
		names = append(names, t.node.Name())
		moved.Insert(c.pod(t.pod))
	}
	here = new(offers)
	if len(names) > 0 {
		on := simulate.Real(func(node *corev1.Node) bool { return slices.Contains(names, node.Name) })
		if here, err = c.offersOn(ctx, at.state, kind, on, moved); err != nil {
			return nil, nil, err
		}
		here.free = slices.DeleteFunc(here.free, func(node simulate.Node) bool { return !c.permits(pod, node) })
	}
	elsewhere = new(offers)
	for _, node := range all.free {
		if len(elsewhere.free) < fewFree && !at.touches(node) && c.permits(pod, node) {
			elsewhere.free = append(elsewhere.free, node)
		}
	}
	elsewhere.victims = all.victims
	return here, elsewhere, nil
}

func (o *offers) node(i int) simulate.Node {
	if i < len(o.free) {
		return o.free[i]
	}
	return o.victims[i-len(o.free)].Node
}

func (o *offers) cost(i int) float64 {
	if i < len(o.free) {
		return 0
	}
	return o.victims[i-len(o.free)].Cost
}

// offersFor returns the candidates in the State for pods of a kind.
func (c *chains) offersFor(ctx context.Context, kind int) (*offers, error) {
	all, known := c.byKind[kind]
	if !known {
		var err error
		if all, err = c.offersOn(ctx, c.state, kind, c.on, nil); err != nil {
			return nil, err
		}
		c.byKind[kind] = all
	}
	return all, nil
}

// offersOn finds candidates on given nodes. Pods in moved are not evicted again.
func (c *chains) offersOn(ctx context.Context, state *simulate.State, kind int, on simulate.Nodes, moved sets.Set[*corev1.Pod]) (*offers, error) {
	list, _, err := state.Victims(ctx, c.kinds[kind], on, func(pod *corev1.Pod) float64 {
		i, found := c.index[pod]
		if !found || moved.Has(pod) {
			return math.Inf(1)
		}
		return c.pods[i].cost + c.prices[c.pods[i].kind]
	}, len(c.nodes))
	if err != nil {
		return nil, err
	}
	o := new(offers)
	first := 0
	for ; first < len(list) && len(list[first].Pods) == 0; first++ {
		o.free = append(o.free, list[first].Node)
	}
	o.victims = list[first:]
	fullestFirst(state, o.free)
	return o, nil
}

func fullestFirst(state *simulate.State, nodes []simulate.Node) {
	inUse := make(map[simulate.Node]float64, len(nodes))
	for _, node := range nodes {
		inUse[node] = state.InUse(node)
	}
	slices.SortStableFunc(nodes, func(a, b simulate.Node) int { return cmp.Compare(inUse[b], inUse[a]) })
}

// end makes a plan of a position without waiting pods, if there is an order for its moves.
func (c *chains) end(ctx context.Context, at *position) error {
	var list []move
	places := make(map[*corev1.Pod]simulate.Node)
	for t := at.last; t != nil; t = t.before {
		if t.pod < len(c.pods) {
			list = append(list, move{&c.pods[t.pod], t.node})
		} else {
			places[c.pod(t.pod)] = t.node
		}
	}
	return c.follow(ctx, list, places)
}

// queue has positions, the most promising first.
type queue []*position

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].likely < q[j].likely || q[i].likely == q[j].likely && q[i].serial > q[j].serial
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*position)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
