package simulate

import (
	"context"
	"slices"

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
	for _, domain := range m.domains(t, on) {
		possible, err := m.hasRoom(ctx, demands, domain)
		if err != nil {
			return Result{}, err
		}
		if !possible {
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
	}
	return none, nil
}

// hasRoom reports whether each demand by itself may have room in a domain.
func (m *Sim) hasRoom(ctx context.Context, demands []Demand, domain Nodes) (bool, error) {
	for _, d := range demands {
		a := m.data.asked(m.world, d.Shape.kind)
		if !a.separate(ctx) {
			continue
		}
		c, err := m.world.newCall(ctx)
		if err != nil {
			return false, err
		}
		fit, err := m.data.fit(c, a, domain)
		if err != nil || fit.Pods < d.Count && fit.Undecided == 0 {
			return false, err
		}
	}
	return true, nil
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
