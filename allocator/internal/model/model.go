// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/quantity"
)

// addDevices fills in the parts of the solver's problem that depend on the node.
func (in *Instance) addDevices() {
	p, f := &in.problem, in.frame
	p.Devices, p.Restores, p.PoolOf, p.KindOf, p.Paid = f.devices, f.restores, f.poolOf, f.kindOf, in.Node.Shared
	p.Relations = f.relations(in.Node.Used, p.Relations[:0])
	in.addLeft()
}

// addRequests fills in the requests.
func (in *Instance) addRequests() {
	p := &in.problem
	p.Claims, p.MostOfClaim = len(in.Compiled.Claims), resourceapi.AllocationResultsMaxSize
	p.Requests = p.Requests[:0]
	for r := range in.Compiled.Requests {
		asked := &in.Compiled.Requests[r]
		options := in.memory.options.Empty(len(asked.Alternatives))
		for _, alt := range asked.Alternatives {
			options = append(options, in.option(alt))
		}
		p.Requests = append(p.Requests, solver.Request{Claim: int32(asked.Claim), Options: options})
	}
}

// addLeft lists what is left of the counters, pool by pool, and then of the capacities of shareable devices.
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

// addDomain translates the domain of an alternative.
func (in *Instance) addDomain(alt *claims.Alternative) {
	d := in.Domain(alt)
	made := solver.Domain{
		Claim: int32(alt.Claim), Admin: alt.Admin, Allowed: d.Allowed,
		Stops: d.Stops, Shares: in.sharesOf(d), Covers: in.memory.covers.Empty(len(alt.Constraints)),
	}
	if len(alt.Totals) > 0 {
		made.Gives, made.Fills = in.totalsOf(alt, d)
	}
	in.problem.Domains = append(in.problem.Domains, made)
}

func (in *Instance) option(alt *claims.Alternative) solver.Option {
	domain := in.Domain(alt)
	// Larger counts all exceed the limit of a claim, so they need not be distinguished.
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

// sharesOf returns the draws of a share, by device.
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

// totalsOf returns what devices contribute to each total of an alternative: all of a device that is not
// shareable, and what a share consumes. A share with a Step contributes what is missing, and at most what is
// left. fills is nil if there is no such share.
func (in *Instance) totalsOf(alt *claims.Alternative, domain *eligibility.Domain) (gives [][]amount.Amount, fills [][]solver.Fill) {
	gives = make([][]amount.Amount, len(alt.Totals))
	for k, total := range alt.Totals {
		gives[k] = in.memory.amounts.Take(len(in.Node.List))
		for i, ok := domain.Allowed.NextSet(0); ok; i, ok = domain.Allowed.NextSet(i + 1) {
			give := &gives[k][i]
			if d := &in.Node.List[i]; !d.Shareable {
				*give = quantity.Amount(d.Object.Capacity[total.Name].Value)
			} else if use := domain.Uses[int32(i)]; use != nil {
				at := slices.IndexFunc(use.Parts, func(p eligibility.Part) bool { return p.Name == total.Name })
				if at < 0 {
					continue
				}
				if *give = use.Parts[at].Taken; use.Parts[at].Step.Sign() > 0 {
					fill := solver.Fill{Resource: in.frame.capacityOf[int32(i)] + int32(at), Step: use.Parts[at].Step}
					*give = in.problem.Left[fill.Resource]
					for len(fills) < len(alt.Totals) {
						fills = append(fills, make([]solver.Fill, len(in.Node.List)))
					}
					fills[k][i] = fill
				}
			}
			if give.Sign() < 0 {
				*give = amount.Amount{}
			}
		}
	}
	return gives, fills
}
