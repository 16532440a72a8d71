package simulate

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Demand is a number of pods of a shape, of a gang.
type Demand struct {
	Shape *Shape
	Count int
}

// Topology is what all nodes of a gang must have in common: the value of a node label. Nodes without
// the label have no value, and take no pod of the gang.
type Topology struct {
	NodeLabel string
	// Preferred topologies are given up, the last one first, if there is no place otherwise.
	Preferred bool
}

// Gang places all pods of the demands, or none. They are placed one after the other in the order
// given, as by PlaceMany, in the first domain in which all get a place: domains in the order in
// which their first node comes. Domains are told apart by the labels of real nodes, and of templates
// that are part of the set. The result counts the pods of all demands; without a place, what is
// undecided says that a domain may still do. The error is the context's; then nothing changed.
func (m *Sim) Gang(ctx context.Context, demands []Demand, t []Topology, on Nodes, p Policy) (Result, error) {
	demands = slices.Clone(demands)
	for i := range demands {
		var err error
		if demands[i].Shape, err = demands[i].Shape.in(m.world); err != nil {
			return Result{}, err
		}
	}
	m.look()
	on = on.fixed(&m.data)
	for required := len(t); ; required-- {
		result, err := m.gangWithin(ctx, demands, t[:required], on, p)
		if err != nil || result.All() || required == 0 || !t[required-1].Preferred {
			return result, err
		}
	}
}

// gangWithin tries the domains of all the topologies.
func (m *Sim) gangWithin(ctx context.Context, demands []Demand, t []Topology, on Nodes, p Policy) (Result, error) {
	total := 0
	for _, d := range demands {
		total += max(0, d.Count)
	}
	none := Result{Unfit: total, world: m.world}
	var closest Nodes
	least := total + 1
	for _, domain := range m.domains(t, on) {
		lacking, err := m.lacking(ctx, demands, domain)
		if err != nil {
			return Result{}, err
		}
		if lacking > 0 {
			if lacking < least {
				closest, least, none.unplaced = domain, lacking, nil
			}
			continue
		}
		result, err := m.gangOn(ctx, demands, domain, p)
		if err != nil || result.All() {
			return result, err
		}
		if result.Undecided > 0 {
			none.Unfit, none.Undecided = 0, total
		}
		if none.Err == nil {
			none.Err = result.Err
		}
		if lacking = total - result.Placed; lacking < least {
			closest, least, none.unplaced = domain, lacking, result.unplaced
		}
	}
	switch {
	case least > total: // there is no domain
		for _, d := range demands {
			none.unplaced = append(none.unplaced, unplaced{state: m.State(), shape: d.Shape, on: on, pods: d.Count, because: withoutDomain(t)})
		}
	case none.unplaced == nil:
		tried, err := m.gangOn(ctx, demands, closest, p)
		if err != nil {
			return Result{}, err
		}
		none.unplaced = tried.unplaced
	}
	return none, nil
}

// withoutDomain says what nodes lack that are in no domain.
func withoutDomain(t []Topology) string {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].NodeLabel
	}
	return "the node does not have the label " + strings.Join(names, ", or not ")
}

// lacking is for how many pods of a demand by itself there is no room in a domain, for the first
// demand for which there is too little. It is zero if there may be room for all.
func (m *Sim) lacking(ctx context.Context, demands []Demand, domain Nodes) (int, error) {
	for _, d := range demands {
		a := m.data.asked(m.world, d.Shape.kind)
		if !a.separate(ctx) {
			continue
		}
		c, err := m.world.newCall(ctx)
		if err != nil {
			return 0, err
		}
		fit, err := m.data.fit(c, a, domain)
		if err != nil || fit.Pods < d.Count && fit.Undecided == 0 {
			return d.Count - fit.Pods, err
		}
	}
	return 0, nil
}

// gangOn places the demands on a set of nodes, all or none.
func (m *Sim) gangOn(ctx context.Context, demands []Demand, on Nodes, p Policy) (Result, error) {
	m.Fork()
	result := Result{world: m.world}
	for _, d := range demands {
		placed, err := m.PlaceMany(ctx, d.Shape, d.Count, on, p)
		if err != nil {
			m.Revert()
			return Result{}, err
		}
		if result.merge(placed); !result.All() {
			break
		}
	}
	if result.All() {
		m.Commit()
		return result, nil
	}
	m.Revert()
	return result, nil
}

// domains divides a set of nodes by labels.
func (m *Sim) domains(t []Topology, on Nodes) []Nodes {
	if len(t) == 0 {
		return []Nodes{on}
	}
	var order []string
	parts := make(map[string][]nodesPart)
	add := func(node *corev1.Node, part nodesPart) {
		key, ok := domainOf(node, t)
		if !ok {
			return
		}
		if parts[key] == nil {
			order = append(order, key)
		}
		before := parts[key]
		if last := len(before) - 1; part.list != nil && last >= 0 && before[last].list != nil {
			before[last].list = append(before[last].list, part.list...)
			return
		}
		parts[key] = append(before, part)
	}
	for part := range on.each() {
		if part.template != nil {
			add(part.template.inventory.node, part)
			continue
		}
		for i := range m.data.realOf(part) {
			if rec := m.data.real.at(i); !rec.gone && part.keeps(rec) {
				add(rec.inventory.node, nodesPart{list: []int{i}})
			}
		}
	}
	var domains []Nodes
	for _, key := range order {
		domains = append(domains, Nodes{&nodeSet{parts: slices.Clip(parts[key])}})
	}
	return domains
}

// domainOf is false for a node that has one of the labels not.
func domainOf(node *corev1.Node, t []Topology) (string, bool) {
	var key []byte
	for _, topology := range t {
		value, found := node.Labels[topology.NodeLabel]
		if !found {
			return "", false
		}
		key = appendText(key, value)
	}
	return string(key), true
}
