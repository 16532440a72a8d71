// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

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
	// Of one pod it is known from the nodes by themselves.
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
