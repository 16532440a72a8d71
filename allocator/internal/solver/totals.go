// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// Fill makes a share take what is still missing of a total, in whole steps and as far as it is left. That is in
// addition to Domain.Shares. The share contributes what it takes, but no more than is missing. A Step of zero
// means that the device contributes Domain.Gives instead.
type Fill struct {
	Resource int32
	Step     amount.Amount
}

// take returns what a share contributes and what it takes.
func (f Fill) take(missing, left amount.Amount) (gives, takes amount.Amount) {
	if missing.Sign() <= 0 || left.Sign() <= 0 {
		return gives, takes
	}
	if takes = missing.Floor(f.Step); takes.Cmp(missing) < 0 {
		takes = takes.Add(f.Step)
	}
	if takes.Cmp(left) <= 0 {
		return missing, takes
	}
	takes = left.Floor(f.Step)
	return takes, takes
}

// fills reports whether some share depends on earlier choices.
func (p *Problem) fills() bool {
	return slices.ContainsFunc(p.Domains, func(d Domain) bool { return d.Fills != nil })
}

// give adds what a chosen device contributes to the totals of its option. It returns the draws with which a
// share fills totals.
func (s *store) give(p, o, device int32) (filled []Draw) {
	option := &s.p.Requests[p].Options[o]
	d := &s.p.Domains[option.Domain]
	if missing := len(option.Totals) - len(s.provided[p]); missing > 0 {
		s.provided[p] = s.memory.amounts.Take(len(option.Totals)) // the devices of another option contribute nothing to these
	}
	for k, total := range option.Totals {
		had := &s.provided[p][k]
		gives := d.Gives[k][device]
		if d.Fills != nil && !d.Fills[k][device].Step.IsZero() {
			f := d.Fills[k][device]
			left := &s.left[f.Resource]
			var takes amount.Amount
			gives, takes = f.take(total.Sub(*had), *left)
			s.amounts.set(left, left.Sub(takes))
			filled = append(filled, Draw{Resource: f.Resource, Amount: takes})
		}
		s.amounts.set(had, had.Add(gives))
	}
	return filled
}

// provides reports whether the devices chosen for an option reach its totals.
func (s *search) provides(p, o int32) bool {
	for k, total := range s.p.Requests[p].Options[o].Totals {
		if s.provided[p][k].Cmp(total) < 0 {
			return false
		}
	}
	return true
}

// sums fails if an opening cannot reach a total. Its bound is what is given already, plus the largest
// contributions of viable devices, one for each slot.
func sums(s *search, open []opening) bool {
	return slices.ContainsFunc(open, func(o opening) bool {
		return !slices.ContainsFunc(o.options, func(option Option) bool { return s.mayProvide(&o, &option) })
	})
}

// mayProvide reports whether viable devices can reach the totals of an option, each total by itself.
func (s *search) mayProvide(o *opening, asked *Option) bool {
	slots, viable := asked.Count, s.ahead.viable[asked.Domain]
	if o.rest {
		slots = o.slots // the others are already chosen
	}
	for k, total := range asked.Totals {
		gives := s.p.Domains[asked.Domain].Gives[k]
		var list []amount.Amount
		for i, ok := viable.NextSet(o.from); ok; i, ok = viable.NextSet(i + 1) {
			list = append(list, gives[i])
		}
		s.payForChecks(len(list))
		slices.SortFunc(list, func(a, b amount.Amount) int { return b.Cmp(a) })
		var most amount.Amount
		if o.rest {
			most = s.provided[o.request][k]
		}
		for _, each := range list[:min(slots, len(list))] {
			most = most.Add(each)
		}
		if most.Cmp(total) < 0 {
			return false
		}
	}
	return true
}
