package model

import (
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

// builder translates an Instance into the terms of the solver, in memory that is used again.
type builder struct {
	solver.Problem
	frame   *frame
	amounts slab.Slab[amount.Amount]
	covers  slab.Slab[solver.Cover]
	options slab.Slab[solver.Option]
	draws   slab.Slab[solver.Draw]
	lists   slab.Slab[[]solver.Draw]
}

func (b *builder) release() {
	b.amounts.Reset()
	b.covers.Reset()
	b.options.Reset()
	b.draws.Reset()
	b.lists.Reset()
	clear(b.Relations)
	clear(b.Domains)
	clear(b.Requests)
	b.Problem = solver.Problem{Relations: b.Relations[:0], Domains: b.Domains[:0], Requests: b.Requests[:0]}
	b.frame = nil
}

// build returns the problem without some parts, and if picked is not nil, with no other options than
// these, by request. It is good until the builder is used again.
func (b *builder) build(in *Instance, out claims.Omitted, picked []int32) *solver.Problem {
	b.release()
	f := frameOf(in.Node.Devices, in.evaluator.Features())
	b.frame = f
	b.Devices, b.Paid, b.PoolOf, b.KindOf = f.devices, in.Node.Shared, f.poolOf, f.kindOf
	b.Restores = f.restores
	b.Claims, b.MostOfClaim = len(in.Problem.Claims), resourceapi.AllocationResultsMaxSize
	b.addLeft(in)
	b.addRelations(in, out)
	b.addDomains(in)
	b.addRequests(in, out, picked)
	return &b.Problem
}

// addLeft lists what is left of counters, pool by pool, and of the capacities of devices.
func (b *builder) addLeft(in *Instance) {
	b.Left = b.amounts.Empty(len(b.frame.poolOf))
	for _, used := range in.Node.Used {
		b.Left = append(b.Left, used.Left...)
	}
	for _, c := range b.frame.capacities {
		d := &in.Node.List[c.device]
		b.Left = append(b.Left, c.total.Sub(in.Node.Used[d.Pool].Consumed(d.Index, c.name)))
	}
}

func (b *builder) addRelations(in *Instance, out claims.Omitted) {
	for g := range b.frame.groups {
		groups := &b.frame.groups[g]
		b.Relations = append(b.Relations, groups.relation(in.Node.Used[groups.pool]))
	}
	for position := range in.Problem.Constraints {
		b.Relations = append(b.Relations, in.relation(position, out.Constraint(in.Problem, position)))
	}
}

// relation is that of a constraint, with the devices that take part already.
func (in *Instance) relation(position int, off bool) solver.Relation {
	constraint := &in.Problem.Constraints[position]
	r := solver.Relation{Kind: constraint.Kind, Values: in.values[position], Off: off}
	if len(constraint.Held) > 0 {
		r.Begun, r.Left = true, in.common(constraint)
	}
	return r
}

func (b *builder) addDomains(in *Instance) {
	for _, alt := range in.Problem.Domains {
		bound := &in.Alternatives[alt.ID]
		d := solver.Domain{
			Claim: int32(alt.Claim), Admin: alt.Admin,
			Allowed: bound.Domain.Allowed, Order: bound.order, Stops: stopsOf(in, bound.Domain), Shares: b.sharesOf(in, bound.Domain),
		}
		if len(alt.Totals) > 0 {
			d.Gives = b.givesOf(in, alt)
			d.Fills = b.fillsOf(in, alt, d.Gives)
		}
		if len(alt.Constraints) > 0 {
			d.Covers = b.covers.Empty(len(alt.Constraints))
		}
		for k, position := range alt.Constraints {
			column := bound.Columns[k]
			d.Covers = append(d.Covers, solver.Cover{Relation: int32(len(b.frame.groups) + position), Values: column.Values, Stops: column.stops})
		}
		b.Domains = append(b.Domains, d)
	}
}

// sharesOf are what a share of each device takes.
func (b *builder) sharesOf(in *Instance, d *eligibility.Domain) [][]solver.Draw {
	if len(d.Uses) == 0 {
		return nil
	}
	shares := b.lists.Take(len(in.Node.List))
	for i, use := range d.Uses {
		if use == nil {
			continue
		}
		first := b.frame.capacityOf[i]
		shares[i] = b.draws.Empty(len(use.Parts))
		for k, part := range use.Parts {
			shares[i] = append(shares[i], solver.Draw{Resource: first + int32(k), Amount: part.Taken})
		}
	}
	return shares
}

// givesOf is what devices that may serve an alternative give of each of its totals: what a share takes
// of the capacity, or all of a device that is not shared.
func (b *builder) givesOf(in *Instance, alt *claims.Alternative) [][]amount.Amount {
	gives, domain := make([][]amount.Amount, len(alt.Totals)), in.Alternatives[alt.ID].Domain
	for k, total := range alt.Totals {
		gives[k] = b.amounts.Take(len(in.Node.List))
		for i, ok := domain.Allowed.NextSet(0); ok; i, ok = domain.Allowed.NextSet(i + 1) {
			gives[k][i] = domain.Given(&in.Node.List[i], int32(i), total.Name)
		}
	}
	return gives
}

// fillsOf finds the devices of which shares take as much as is missing of a total, and sets the most that
// these can give: what is left of them. It is nil if there are none.
func (b *builder) fillsOf(in *Instance, alt *claims.Alternative, gives [][]amount.Amount) [][]solver.Fill {
	domain := in.Alternatives[alt.ID].Domain
	var fills [][]solver.Fill
	for k, total := range alt.Totals {
		if alt.Capacity != nil {
			if _, fixed := alt.Capacity.Requests[total.Name]; fixed {
				continue // the request says what a share takes
			}
		}
		for i, use := range domain.Uses {
			part := slices.IndexFunc(use.Parts, func(p eligibility.Part) bool { return p.Name == total.Name })
			if part < 0 {
				continue
			}
			step, ok := eligibility.Step(in.Node.List[i].Object.Capacity[total.Name])
			if !ok {
				continue
			}
			if fills == nil {
				fills = make([][]solver.Fill, len(alt.Totals))
				for t := range fills {
					fills[t] = make([]solver.Fill, len(in.Node.List))
				}
			}
			resource := b.frame.capacityOf[i] + int32(part)
			fills[k][i] = solver.Fill{Resource: resource, Step: step}
			if gives[k][i] = b.Left[resource]; gives[k][i].Sign() < 0 {
				gives[k][i] = amount.Amount{}
			}
		}
	}
	return fills
}

// stopsOf are the devices that cannot be judged.
func stopsOf(in *Instance, d *eligibility.Domain) *bitset.BitSet {
	if len(d.Bad) == 0 {
		return nil
	}
	set := in.sets.New(len(in.Node.List))
	for i := range d.Bad {
		set.Set(uint(i))
	}
	return set
}

func (b *builder) addRequests(in *Instance, out claims.Omitted, picked []int32) {
	for c := range in.Problem.Claims {
		for r := range in.Problem.Claims[c].Requests {
			alternatives := in.Problem.Claims[c].Requests[r].Alternatives
			options := b.options.Empty(len(alternatives))
			for o, alt := range alternatives {
				if picked != nil && picked[len(b.Requests)] != int32(o) {
					options = append(options, solver.Option{Domain: int32(alt.Domain), All: true}) // all of none cannot be had
					continue
				}
				bound := &in.Alternatives[alt.ID]
				// What the claim cannot hold is told apart no further.
				count := min(bound.Needed, resourceapi.AllocationResultsMaxSize+1)
				option := solver.Option{Domain: int32(alt.Domain), Count: count, All: alt.All}
				if len(alt.Totals) > 0 {
					option.Totals = b.amounts.Empty(len(alt.Totals))
					for _, total := range alt.Totals {
						option.Totals = append(option.Totals, total.Amount)
					}
				}
				if alt.All {
					option.Mandatory, option.Late = bound.Domain.Mandatory[:count], bound.Domain.Exhausted
				}
				options = append(options, option)
			}
			b.Requests = append(b.Requests, solver.Request{Claim: int32(c), Off: out.Request(c, r), Options: options})
		}
	}
}

// Answer is a solution by position, or that there is none.
type Answer struct {
	Satisfiable bool
	// Literal is that of the Instance.
	Literal bool
	Choices []Choice
	// Picked is the index of the alternative by claim and request.
	Picked [][]int
	// Missed are preferences that the solution does not have, the most important first.
	Missed []Miss
}

// Choice is a device for an alternative.
type Choice struct {
	// Alternative is an ID.
	Alternative int
	// Place counts the devices that are on the node, in the order of the view.
	Place int32
	// Offer is the position of the class that the device is of.
	Offer int32
	// Filled is what a share takes to fill totals of the request. Nil if there are none.
	Filled []Filled
}

// Filled is an amount that a share takes of a capacity.
type Filled struct {
	Capacity resourceapi.QualifiedName
	Amount   amount.Amount
}

// Answer translates a result that is found or none.
func (in *Instance) Answer(result Result) Answer {
	if result.Verdict != solver.Found {
		return Answer{Literal: in.Literal}
	}
	a := Answer{Satisfiable: true, Literal: in.Literal, Choices: make([]Choice, len(result.Choices)), Picked: make([][]int, len(in.Problem.Claims)), Missed: result.Missed}
	p := 0
	for c := range in.Problem.Claims {
		a.Picked[c] = make([]int, len(in.Problem.Claims[c].Requests))
		for r := range a.Picked[c] {
			a.Picked[c][r] = int(result.Options[p])
			p++
		}
	}
	for i, c := range result.Choices {
		id := in.alternative(c.Request, c.Option).ID
		a.Choices[i] = Choice{Alternative: id, Place: in.Node.List[c.Device].Place}
		if offers := in.Alternatives[id].offers; offers != nil {
			a.Choices[i].Offer = offers[c.Device]
		}
		if result.Filled != nil {
			a.Choices[i].Filled = in.problem.frame.filled(result.Filled[i])
		}
	}
	return a
}

// filled names the capacities that are taken. Those of devices are the last resources.
func (f *frame) filled(draws []solver.Draw) (list []Filled) {
	first := len(f.poolOf) - len(f.capacities)
	for _, draw := range draws {
		list = append(list, Filled{Capacity: f.capacities[int(draw.Resource)-first].name, Amount: draw.Amount})
	}
	return list
}

// alternative is an option of a request, which the solver counts over all claims.
func (in *Instance) alternative(request, option int32) *claims.Alternative {
	for c := range in.Problem.Claims {
		requests := in.Problem.Claims[c].Requests
		if int(request) < len(requests) {
			return requests[request].Alternatives[option]
		}
		request -= int32(len(requests))
	}
	panic("a request beyond the claims")
}

// StopError says why the search ended at a device.
func (in *Instance) StopError(at solver.Stop) error {
	alt := in.alternative(at.Request, at.Option)
	path, device := in.Problem.Path(alt), in.Node.ID(at.Device)
	switch {
	case at.Cover < 0:
		return fmt.Errorf("%s: %w", path, in.Alternatives[alt.ID].Domain.Bad[at.Device])
	case at.Violated:
		return fmt.Errorf("%s: asks for all devices, but device %s violates %s", path, device, in.Problem.ConstraintRef(alt.Constraints[at.Cover]))
	}
	return fmt.Errorf("%s: device %s: %w", path, device, in.Alternatives[alt.ID].Columns[at.Cover].errs[at.Device])
}
