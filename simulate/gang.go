// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/narrow"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Gang places all pods of the demands, or none. They are placed one after the other in the order given, as by
// PlaceMany, in the first domain where all fit. Domains are ordered by their first node.
//
// If there is no such domain, and Options.GangsOneByOne is not set, the pods are solved as one problem for each
// domain, see package gang. Nodes are then taken in the order given, whatever the policy. If that has no
// solution, the gang certainly does not fit, unless Result.NoProof is set: because of devices that several
// nodes can reach, admin access, or claims that are to match others of their pod. With more than 1,024 pods, or
// nodes of Any, a gang that does not fit one by one is undecided, unless it is known that fewer pods do not
// fit.
//
// Domains are distinguished by the labels and devices of real nodes, and of templates in the set. The result
// counts the pods of all demands. If none is placed, undecided pods may still fit in some domain. Result.Domain
// is the domain of the gang, Result.Closest the domain that comes closest if the gang is not placed. An
// undecided node can be used with a topology only if that is a label for which its templates have the same
// value, or none has it.
//
// It takes time in proportion to the nodes, and as FitsMany for each domain. Pods that do not fit one by one
// take time in proportion to all devices, and up to Options.Budget. Each value of an attribute is a problem of
// its own. The error is about a topology or a shape, or is the context's. Then nothing changes.
func (m *Sim) Gang(ctx context.Context, demands []Demand, t []Topology, on Nodes, p NodePolicy) (Result, error) {
	demands = slices.Clone(demands)
	for i := range demands {
		var err error
		if demands[i].Shape, err = demands[i].Shape.in(m.world); err != nil {
			return Result{}, err
		}
	}
	if err := checkTopologies(t, demands); err != nil {
		return Result{}, err
	}
	if err := checkUndecided(t, on); err != nil {
		return Result{}, err
	}
	m.updateReadSet()
	on, err := on.fixed(m.world, &m.data)
	if err != nil {
		return Result{}, err
	}
	for required := len(t); ; required-- {
		last := required == 0 || !t[required-1].Preferred
		result, err := m.gangWithin(ctx, demands, t[:required], on, p, last)
		if err != nil || result.All() || last {
			return result, err
		}
	}
}

// checkUndecided returns an error for a topology in which the domain of an undecided node is unknown.
func checkUndecided(t []Topology, on Nodes) error {
	for _, part := range on.list() {
		if part.template == nil || part.template.choice == nil {
			continue
		}
		for i, topology := range t {
			_, common := part.template.spec.Node.Labels[topology.NodeLabel]
			if common || part.template.choice.lacks(topology.NodeLabel) {
				continue
			}
			return fmt.Errorf("topology %d: the domain of nodes of %s: %w", i, part.template.name(), ErrUndecidedNode)
		}
	}
	return nil
}

// gangWithin tries the domains of all the topologies. Only if last is set, the result says why the gang was not
// placed.
func (m *Sim) gangWithin(ctx context.Context, demands []Demand, t []Topology, on Nodes, p NodePolicy, last bool) (Result, error) {
	total := 0
	for _, d := range demands {
		total += min(max(0, d.Count), math.MaxInt-total)
	}
	none := Result{Unfit: total, world: m.world}
	for _, d := range demands {
		none.NotLookedAt = notLookedAt(none.NotLookedAt, d.Shape)
	}
	domains := m.domains(t, on)
	for i := range domains {
		d := &domains[i]
		d.members = m.members(demands, t, d, on)
		if err := m.count(ctx, d); err != nil {
			return Result{}, err
		}
		if d.counted {
			continue // not all fit one after the other
		}
		result, err := m.gangOn(ctx, d.members, p)
		if err != nil || result.All() {
			result.Domain = d.inCommon(t)
			return result, err
		}
		if result.Undecided > 0 {
			none.Unfit, none.Undecided = 0, total
		}
		if none.Err == nil {
			none.Err = result.Err
		}
		d.note(&result)
	}
	// For a single pod, placing it on one node after the other is exact.
	if !m.world.options.GangsOneByOne && (total > 1 || none.Undecided > 0) {
		q := &together{Sim: m, total: total, left: m.world.options.Budget}
		result, at, err := q.place(ctx, domains)
		if err != nil {
			return Result{}, err
		}
		if at != nil {
			result.Domain = at.inCommon(t)
			return result, nil
		}
		if q.doubt {
			none.Unfit, none.Undecided = 0, total
		}
		none.NoProof = q.noProof && none.Unfit > 0
		if none.Err == nil {
			none.Err = q.err
		}
	}
	if !last {
		return none, nil
	}
	nearest := closest(domains)
	if nearest == nil { // there is no domain
		for _, d := range demands {
			none.unplaced = append(none.unplaced, unplaced{state: m.State(), shape: d.Shape, on: on, pods: d.Count, because: withoutDomain(t)})
		}
		return none, nil
	}
	if nearest.counted {
		result, err := m.gangOn(ctx, nearest.members, p)
		if err != nil {
			return Result{}, err
		}
		nearest.unplaced = result.unplaced
	}
	none.unplaced = nearest.unplaced
	none.Closest = &Closest{Domain: nearest.inCommon(t), Placed: nearest.placed, Pods: total}
	return none, nil
}

// count counts the pods that fit in a domain one after the other, without placing them. It does so for pods of one
// demand of which each depends on its node only, and notes the result if not all fit.
func (m *Sim) count(ctx context.Context, d *domain) error {
	if len(d.members) != 1 || m.world.placesGangs || !d.members[0].on.distinct() {
		return nil
	}
	one := &d.members[0]
	a := m.data.needsOf(m.world, one.Shape.kind)
	if one.Count > mostTogether || !a.separate(ctx) {
		return nil
	}
	c, err := m.world.NewCall(ctx)
	if err != nil {
		return err
	}
	most, left := true, int64(one.Count)
	decided := m.data.each(one.on, one.Count, func(_ Node, rec *nodeRecord) {
		if left <= 0 || c.Doubts || err != nil {
			return
		}
		limit := left
		if one.PerNode > 0 {
			limit = min(limit, int64(one.PerNode))
		}
		var n int64
		var doubt bool
		n, doubt, err = a.room(&c, rec, limit)
		c.Doubts = c.Doubts || doubt
		most = most && (n == limit || a.exhausts(rec.facts))
		left -= n
	})
	if err == nil && decided && left > 0 && !c.Doubts && c.Err == nil {
		d.counted, d.most, d.placed = true, most, one.Count-int(left)
	}
	return err
}

// closest returns the domain in which most pods fit, the first of several. It is nil without domains.
func closest(domains []domain) *domain {
	var best *domain
	for i := range domains {
		if d := &domains[i]; best == nil || d.placed > best.placed {
			best = d
		}
	}
	return best
}

// withoutDomain says which label or attribute is missing on nodes that are in no domain, or which value.
func withoutDomain(t []Topology) string {
	phrases := make([]string, len(t))
	for i := range t {
		if phrases[i] = "the label " + t[i].NodeLabel; t[i].NodeLabel == "" {
			phrases[i] = "a device with the attribute " + string(t[i].DeviceAttribute)
		}
		switch {
		case len(t[i].Values) > 0:
			phrases[i] += " = " + strings.Join(t[i].Values, " or ")
		case t[i].Values != nil:
			phrases[i] += " and a value that is permitted"
		}
	}
	return "the node does not have " + strings.Join(phrases, ", or not ")
}

// gangOn places the pods of all members, or none.
func (m *Sim) gangOn(ctx context.Context, members []member, p NodePolicy) (Result, error) {
	return m.allOrNothing(func() (Result, error) {
		result := Result{world: m.world}
		for _, d := range members {
			placed, err := m.placeSome(ctx, d.Shape, d.Count, d.PerNode, d.on, p)
			if err != nil {
				return Result{}, err
			}
			if result.merge(placed); !result.All() {
				break
			}
		}
		return result, nil
	})
}

// Demand is a number of pods of one shape in a gang.
type Demand struct {
	Shape *Shape
	Count int
	// PerNode is the largest number of these pods on one node. Zero or less is no limit. Other pods do not
	// count, even of the same shape.
	PerNode int
}

// Demands returns the demands of a gang: one for all pods that ask for the same, in the order of their first pods.
// So Sim.Gang places them in the order given, as far as equal ones follow each other. Time and errors are those
// of Shapes.
func (s *State) Demands(gang []*corev1.Pod) ([]Demand, error) {
	shapes, err := s.Shapes(gang)
	if err != nil {
		return nil, err
	}
	at := make(map[*corev1.Pod]int, len(gang))
	for i, pod := range gang {
		at[pod] = i
	}
	slices.SortFunc(shapes, func(a, b *Shape) int { return cmp.Compare(at[a.Pods[0]], at[b.Pods[0]]) })
	demands := make([]Demand, len(shapes))
	for i, shape := range shapes {
		demands[i] = Demand{Shape: shape, Count: len(shape.Pods)}
	}
	return demands, nil
}

// checkTopologies returns an error for a topology that is incomplete or contradictory.
func checkTopologies(t []Topology, demands []Demand) error {
	for i, topology := range t {
		if (topology.NodeLabel == "") == (topology.DeviceAttribute == "") {
			return fmt.Errorf("topology %d: want either a node label or a device attribute", i)
		}
		if topology.NodeLabel != "" {
			if len(topology.Requests) > 0 {
				return fmt.Errorf("topology %d: requests go with a device attribute", i)
			}
			continue
		}
		if domain, id, qualified := strings.Cut(string(topology.DeviceAttribute), "/"); !qualified || domain == "" || id == "" {
			return fmt.Errorf("topology %d: device attribute %q: want domain/name", i, topology.DeviceAttribute)
		}
		for _, name := range topology.Requests {
			if !slices.ContainsFunc(demands, func(d Demand) bool { return slices.Contains(d.Shape.kind.requests(), name) }) {
				return fmt.Errorf("topology %d: no pod of the gang has a request %q", i, name)
			}
		}
	}
	return nil
}

// domain is a set of nodes with the same values of the topologies.
type domain struct {
	on      Nodes
	values  []string // by topology
	members []member
	// placed is the largest number of pods that fit there so far. unplaced explains why the others do not.
	placed   int
	unplaced []unplaced
	// counted is set if the pods were counted instead of placed, and not all fit. unplaced is then not set. most
	// is set if no more fit in another way.
	counted, most bool
}

// note records the result of placing the pods one after the other.
func (d *domain) note(r *Result) {
	d.placed, d.unplaced = r.Placed, r.unplaced
}

func (d *domain) inCommon(t []Topology) []InCommon {
	var list []InCommon
	for i, value := range d.values {
		list = append(list, InCommon{Topology: t[i], Value: value})
	}
	return list
}

// domains divides a set of nodes by labels and by attributes of their devices. A node may be in several
// domains.
func (m *Sim) domains(t []Topology, on Nodes) []domain {
	if len(t) == 0 {
		return []domain{{on: on}}
	}
	var order []domain
	var parts [][]nodesPart
	at := make(map[string]int)
	var key []byte
	find := func(values []string) int {
		key = key[:0]
		for _, value := range values {
			key = strconv.AppendQuote(key, value)
		}
		i, known := at[string(key)]
		if !known {
			i, at[string(key)] = len(order), len(order)
			order, parts = append(order, domain{values: slices.Clone(values)}), append(parts, nil)
		}
		return i
	}
	buffer := make([]string, 0, len(t))
	for _, part := range on.list() {
		if part.template != nil {
			m.eachDomain(part.template.under(m.data.rules), t, buffer, func(values []string) {
				i := find(values)
				parts[i] = append(parts[i], part)
			})
			continue
		}
		for node, rec := range m.data.realIn(part) {
			m.eachDomain(rec.facts, t, buffer, func(values []string) {
				i := find(values)
				if last := len(parts[i]) - 1; last < 0 || parts[i][last].list == nil {
					parts[i] = append(parts[i], nodesPart{})
				}
				last := &parts[i][len(parts[i])-1]
				last.list = append(last.list, node)
			})
		}
	}
	for i := range order {
		order[i].on = Nodes{&nodeSet{parts: parts[i]}}
	}
	return order
}

// eachDomain visits the combinations of values that a node has: the given values, followed by one for each
// topology. The list is valid during the call only.
func (m *Sim) eachDomain(inv *nodeFacts, t []Topology, values []string, visit func([]string)) {
	switch {
	case len(t) == 0:
		visit(values)
	case t[0].NodeLabel != "":
		if value, found := inv.Node.Labels[t[0].NodeLabel]; found && t[0].Permits(value) {
			m.eachDomain(inv, t[1:], append(values, value), visit)
		}
	default:
		for _, value := range m.attributeValues(inv, t[0].DeviceAttribute) {
			if !t[0].Permits(value) {
				continue
			}
			m.eachDomain(inv, t[1:], append(values, value), visit)
		}
	}
}

// attributeValues lists the values of an attribute for the devices that a node reaches, as CEL literals.
func (m *Sim) attributeValues(inv *nodeFacts, name resourceapi.FullyQualifiedName) []string {
	var values []string
	add := func(driver string, devices []*resourceapi.Device) {
		for _, device := range devices {
			for _, value := range narrow.Literals(driver, device, name) {
				if !slices.Contains(values, value) {
					values = append(values, value)
				}
			}
		}
	}
	for i := range inv.Pools {
		add(inv.Pools[i].ID.Driver, inv.Pools[i].Devices)
	}
	for position := range m.data.surroundings.Shared.Reaching(inv.Inventory) {
		pool := m.data.surroundings.Shared.Pools[position]
		add(pool.ID.Driver, pool.Devices)
	}
	return values
}

// member is a demand in a domain: its nodes, and a shape that gets only devices with the values of the domain.
type member struct {
	Demand
	on Nodes
}

// members returns the demands for a domain. Pods without a request to which a device attribute applies can use
// all nodes with the labels of the domain.
func (m *Sim) members(demands []Demand, t []Topology, d *domain, all Nodes) []member {
	var filters []narrow.Filter
	var labels []Topology
	var values []string
	for i, topology := range t {
		if topology.DeviceAttribute != "" {
			filters = append(filters, narrow.Filter{Attribute: topology.DeviceAttribute, Requests: topology.Requests, Values: d.values[i : i+1]})
			continue
		}
		labels, values = append(labels, topology), append(values, d.values[i])
	}
	list := make([]member, len(demands))
	for i, demand := range demands {
		list[i] = member{demand, d.on}
		switch shape := demand.Shape; {
		case len(filters) == 0:
		case shape.kind.narrows(filters):
			list[i].Shape = &Shape{Pods: shape.Pods, kind: m.world.narrowedKind(shape.kind, filters), claims: m.world.resolver}
		default:
			for _, labelled := range m.domains(labels, all) {
				if slices.Equal(labelled.values, values) {
					list[i].on = labelled.on
				}
			}
		}
	}
	m.updateReadSet()
	return list
}

// requests lists the names of requests in the pods' claims, also as "request/subrequest".
func (k *podKind) requests() []string {
	var names []string
	for _, s := range specsOf(k.entries) {
		for i := range s.Devices.Requests {
			r := &s.Devices.Requests[i]
			names = append(names, r.Name)
			for j := range r.FirstAvailable {
				names = append(names, r.Name+"/"+r.FirstAvailable[j].Name)
			}
		}
	}
	return names
}

// narrows reports whether a filter applies to a request of the pods.
func (k *podKind) narrows(filters []narrow.Filter) bool {
	return len(k.extended) > 0 || slices.ContainsFunc(filters, func(f narrow.Filter) bool { return slices.ContainsFunc(k.requests(), f.Concerns) })
}

// narrowedKind returns the kind whose requests get only devices that pass the filters.
func (w *world) narrowedKind(k *podKind, filters []narrow.Filter) *podKind {
	key := k.key
	for _, f := range filters {
		key += fmt.Sprintf(" narrowed %q %q %q %t", f.Attribute, f.Requests, f.Values, f.Only)
	}
	if known, found := w.kinds.Get(key); found {
		return known
	}
	n := &podKind{key: key, world: w.first, example: k.example, notLookedAt: k.notLookedAt, shares: k.shares, extended: k.extended, demands: k.demands, base: k.base, variants: []*variant{k.base}, whole: k, filters: filters}
	var extended []*onenode.Spec
	for _, e := range k.entries {
		e.spec = w.narrowed(e.spec, filters)
		n.entries = append(n.entries, e)
	}
	for _, e := range k.extended {
		extended = append(extended, w.narrowed(e.spec, filters))
	}
	return w.intern(n, extended)
}
