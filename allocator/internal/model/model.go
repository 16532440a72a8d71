package model

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

// translate fills in the problem, of which the relations are there.
func (in *Instance) translate() {
	p, f := &in.problem, in.frame
	p.Devices, p.Restores, p.PoolOf, p.KindOf, p.Paid = f.devices, f.restores, f.poolOf, f.kindOf, in.Node.Shared
	p.Claims, p.MostOfClaim = len(in.Problem.Claims), resourceapi.AllocationResultsMaxSize
	in.addLeft()
	p.Domains = p.Domains[:0]
	for k, alt := range in.Problem.Domains {
		p.Domains = append(p.Domains, in.solverDomain(alt, &in.Domains[k]))
	}
	p.Requests, in.requests = p.Requests[:0], in.requests[:0]
	for c := range in.Problem.Claims {
		requests := in.Problem.Claims[c].Requests
		for r := range requests {
			options := in.memory.options.Empty(len(requests[r].Alternatives))
			for _, alt := range requests[r].Alternatives {
				options = append(options, in.option(alt))
			}
			p.Requests = append(p.Requests, solver.Request{Claim: int32(c), Options: options})
			in.requests = append(in.requests, &requests[r])
		}
	}
}

// addLeft lists what is left of counters, pool by pool, and of the capacities of devices.
func (in *Instance) addLeft() {
	left := in.memory.amounts.Empty(len(in.frame.poolOf))
	for _, used := range in.Node.Used {
		left = append(left, used.Left...)
	}
	for _, c := range in.frame.capacities {
		d := &in.Node.List[c.device]
		left = append(left, c.total.Sub(in.Node.Used[d.Pool].Consumed(d.Index, c.name)))
	}
	in.problem.Left = left
}

func (in *Instance) solverDomain(alt *claims.Alternative, of *Domain) solver.Domain {
	d := solver.Domain{
		Claim: int32(alt.Claim), Admin: alt.Admin, Allowed: of.Allowed, Order: of.order,
		Stops: in.stops(of.Bad), Shares: in.sharesOf(of.Domain), Covers: in.memory.covers.Empty(len(of.Columns)),
	}
	if len(alt.Totals) > 0 {
		d.Gives = in.givesOf(alt)
		d.Fills = in.fillsOf(alt, d.Gives)
	}
	for k, column := range of.Columns {
		relation := int32(len(in.frame.groups) + alt.Constraints[k])
		d.Covers = append(d.Covers, solver.Cover{Relation: relation, Column: &column.Column, Stops: in.stops(column.errs)})
	}
	return d
}

// stops are the devices at which looking is an error.
func (in *Instance) stops(errs map[int32]error) *bitset.BitSet {
	if len(errs) == 0 {
		return nil
	}
	set := in.memory.sets.New(len(in.Node.List))
	for i := range errs {
		set.Set(uint(i))
	}
	return set
}

func (in *Instance) option(alt *claims.Alternative) solver.Option {
	domain := &in.Domains[alt.Domain]
	// What the claim cannot hold is told apart no further.
	count := min(in.Needed(alt), resourceapi.AllocationResultsMaxSize+1)
	option := solver.Option{Domain: int32(alt.Domain), Count: count, All: alt.All}
	if len(alt.Totals) > 0 {
		option.Totals = in.memory.amounts.Empty(len(alt.Totals))
		for _, total := range alt.Totals {
			option.Totals = append(option.Totals, total.Amount)
		}
	}
	if alt.All {
		option.Mandatory, option.Late = domain.Mandatory[:count], domain.Exhausted
	}
	return option
}

// sharesOf are what a share of each device takes.
func (in *Instance) sharesOf(d *eligibility.Domain) [][]solver.Draw {
	if len(d.Uses) == 0 {
		return nil
	}
	shares := in.memory.lists.Take(len(in.Node.List))
	for i, use := range d.Uses {
		if use == nil {
			continue
		}
		first := in.frame.capacityOf[i]
		shares[i] = in.memory.draws.Empty(len(use.Parts))
		for k, part := range use.Parts {
			shares[i] = append(shares[i], solver.Draw{Resource: first + int32(k), Amount: part.Taken})
		}
	}
	return shares
}

// givesOf is what devices that may serve an alternative give of each of its totals: what a share takes
// of the capacity, or all of a device that is not shared.
func (in *Instance) givesOf(alt *claims.Alternative) [][]amount.Amount {
	gives, domain := make([][]amount.Amount, len(alt.Totals)), in.Domains[alt.Domain]
	for k, total := range alt.Totals {
		gives[k] = in.memory.amounts.Take(len(in.Node.List))
		for i, ok := domain.Allowed.NextSet(0); ok; i, ok = domain.Allowed.NextSet(i + 1) {
			gives[k][i] = domain.Given(&in.Node.List[i], int32(i), total.Name)
		}
	}
	return gives
}

// fillsOf finds the devices of which shares take as much as is missing of a total, and sets the most that
// these can give: what is left of them. It is nil if there are none.
func (in *Instance) fillsOf(alt *claims.Alternative, gives [][]amount.Amount) [][]solver.Fill {
	domain := in.Domains[alt.Domain]
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
			resource := in.frame.capacityOf[i] + int32(part)
			fills[k][i] = solver.Fill{Resource: resource, Step: step}
			if gives[k][i] = in.problem.Left[resource]; gives[k][i].Sign() < 0 {
				gives[k][i] = amount.Amount{}
			}
		}
	}
	return fills
}
