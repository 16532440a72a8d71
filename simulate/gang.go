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

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Demand is a number of pods of a shape, of a gang.
type Demand struct {
	Shape *Shape
	Count int
	// PerNode is how many of them may be on one node. Zero or less is no limit. Other pods do not count, though they may be of
	// the same shape.
	PerNode int
}

// Topology is what a gang must have in common: the value of a label of all its nodes, or of an
// attribute of all its devices. One of the two is set. Nodes without the label, and devices without
// the attribute, have no value and are of no use.
type Topology struct {
	NodeLabel string
	// DeviceAttribute is compared as by matchAttribute, but over all pods: requests get devices with
	// one value, or with a list that has it. A request for all devices gets all with the value. The
	// order is that of nodes, then of devices. Versions that differ in build metadata only are equal.
	// Pods without such a request need no node of the domain, but for its labels.
	DeviceAttribute resourceapi.FullyQualifiedName
	// Requests are the names of the requests that DeviceAttribute is about, as in a
	// DeviceConstraint: "request" or "request/subrequest". Empty are all.
	Requests []string
	// Preferred topologies are given up, the last one first, if there is no place otherwise. So with the levels of a hierarchy
	// in order, such as zone and rack, all preferred, a gang is placed in the innermost that has room.
	Preferred bool
}

// InCommon is what the nodes or devices of a domain have in common: the value of a label, or that of an attribute as a CEL literal.
type InCommon struct {
	Topology Topology
	Value    string
}

// String is name and value.
func (c InCommon) String() string { return c.Topology.name() + "=" + c.Value }

func (t *Topology) name() string {
	return cmp.Or(t.NodeLabel, string(t.DeviceAttribute))
}

// Closest is the domain that comes closest to having room for a gang.
type Closest struct {
	// Domain has a value for each topology that is required.
	Domain []InCommon
	// Placed is for how many of the Pods a place was found there: one after the other until one has none, or more of them
	// together.
	Placed, Pods int
}

// String is one sentence, without a full stop.
func (c *Closest) String() string {
	count := fmt.Sprintf("%d of %s", c.Placed, explain.Count(c.Pods, "pod"))
	if len(c.Domain) == 0 {
		return count + " have a place"
	}
	names := make([]string, len(c.Domain))
	for i := range c.Domain {
		names[i] = c.Domain[i].String()
	}
	return strings.Join(names, ", ") + " comes closest: " + count
}

// Gang places all pods of the demands, or none. They are placed one after the other in the order
// given, as by PlaceMany, in the first domain in which all get a place: domains in the order in
// which their first node comes. If there is none, and Options.GangsOneByOne is not set, the pods are placed together in the first
// domain in which that is possible, as package gang does it: nodes are then taken in the order given, whatever the
// policy. That the pods do not fit together either is a proof but for Result.NoProof: devices that several nodes can
// reach, admin access, and claims that are to match others of their pod. With more than 1,024 pods, or nodes of Any, a gang that
// does not fit one by one is undecided, unless it is known that fewer pods do not fit. Domains are told apart by the labels and devices of real nodes, and of
// templates that are part of the set. The result counts the pods of all demands; without a place, what
// is undecided says that a domain may still do. Result.Domain is where the gang is, Result.Closest which domain lacks least
// if it has no place. It takes time in proportion to the nodes, and as
// FitsMany for each domain; pods that do not fit one by one take time in proportion to all devices, and up to
// Options.Budget. Devices are read once, and each value of an attribute makes questions of
// its own. Undecided nodes go with a topology only if it is a label which all their templates have with
// one value, or none has. The error says what is wrong with a topology or a shape, or is the context's;
// then nothing changed.
func (m *Sim) Gang(ctx context.Context, demands []Demand, t []Topology, on Nodes, p Policy) (Result, error) {
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
	m.look()
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

// checkUndecided reports topologies of which the domain of an undecided node is not known.
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

// gangWithin tries the domains of all the topologies. Only the last time it matters why there is no place.
func (m *Sim) gangWithin(ctx context.Context, demands []Demand, t []Topology, on Nodes, p Policy, last bool) (Result, error) {
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
	if !m.world.options.GangsOneByOne {
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
	none.unplaced = nearest.unplaced
	none.Closest = &Closest{Domain: nearest.inCommon(t), Placed: nearest.placed, Pods: total}
	return none, nil
}

// closest is the domain in which most pods have a place one after the other, the first of several; nil without domains.
func closest(domains []domain) *domain {
	var best *domain
	for i := range domains {
		if d := &domains[i]; best == nil || d.placed > best.placed {
			best = d
		}
	}
	return best
}

// withoutDomain says what nodes lack that are in no domain.
func withoutDomain(t []Topology) string {
	phrases := make([]string, len(t))
	for i := range t {
		if phrases[i] = "the label " + t[i].NodeLabel; t[i].NodeLabel == "" {
			phrases[i] = "a device with the attribute " + string(t[i].DeviceAttribute)
		}
	}
	return "the node does not have " + strings.Join(phrases, ", or not ")
}

// gangOn places the pods of all members, or none.
func (m *Sim) gangOn(ctx context.Context, members []member, p Policy) (Result, error) {
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

// allOrNothing undoes what a call does that does not place all its pods.
func (m *Sim) allOrNothing(place func() (Result, error)) (Result, error) {
	m.Fork()
	result, err := place()
	if err != nil || !result.All() {
		m.Revert()
		return result, err
	}
	m.Commit()
	return result, nil
}

// domain is nodes that have the same values of topologies.
type domain struct {
	on      Nodes
	values  []string // by topology
	members []member
	// placed is how many pods had a place one after the other, unplaced are the others.
	placed   int
	unplaced []unplaced
}

// note keeps what came of placing the pods one after the other.
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

// member is a demand in a domain: its pods see devices with the values of the domain only, and run on a set of nodes.
type member struct {
	Demand
	on Nodes
}

// domains divides a set of nodes by labels and by the attributes of their devices. A node may be in
// several.
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
			m.eachDomain(part.template.facts, t, buffer, func(values []string) {
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

// eachDomain visits the combinations of values that a node has: one for each topology, after those
// given. The list is only lent.
func (m *Sim) eachDomain(inv *nodeFacts, t []Topology, values []string, visit func([]string)) {
	switch {
	case len(t) == 0:
		visit(values)
	case t[0].NodeLabel != "":
		if value, found := inv.Node.Labels[t[0].NodeLabel]; found {
			m.eachDomain(inv, t[1:], append(values, value), visit)
		}
	default:
		for _, value := range m.attributeValues(inv, t[0].DeviceAttribute) {
			m.eachDomain(inv, t[1:], append(values, value), visit)
		}
	}
}

// attributeValues lists the values of an attribute of the devices that reach a node, as CEL literals.
func (m *Sim) attributeValues(inv *nodeFacts, name resourceapi.FullyQualifiedName) []string {
	var values []string
	add := func(driver string, devices []*resourceapi.Device) {
		for _, device := range devices {
			for _, value := range literals(driver, device, name) {
				if !slices.Contains(values, value) {
					values = append(values, value)
				}
			}
		}
	}
	for i := range inv.Pools {
		add(inv.Pools[i].ID.Driver, inv.Pools[i].Devices)
	}
	for position := range m.data.around.Shared.Reaching(inv.Inventory) {
		pool := m.data.around.Shared.Pools[position]
		add(pool.ID.Driver, pool.Devices)
	}
	return values
}

// literals are the values that a device has of an attribute.
func literals(driver string, d *resourceapi.Device, name resourceapi.FullyQualifiedName) []string {
	a, found := onenode.AttributeOf(driver, d, name)
	if !found || shape.Unknown(&a) {
		return nil
	}
	quoted := func(text string) string { return strconv.QuoteToASCII(text) }
	version := func(text string) string { return "semver(" + quoted(text) + ")" }
	var list []string
	list = appendLiterals(list, a.StringValue, a.StringValues, quoted)
	list = appendLiterals(list, a.IntValue, a.IntValues, func(n int64) string { return strconv.FormatInt(n, 10) })
	list = appendLiterals(list, a.BoolValue, a.BoolValues, strconv.FormatBool)
	return appendLiterals(list, a.VersionValue, a.VersionValues, version)
}

func appendLiterals[T any](to []string, one *T, several []T, literal func(T) string) []string {
	if one != nil {
		to = append(to, literal(*one))
	}
	for _, value := range several {
		to = append(to, literal(value))
	}
	return to
}
