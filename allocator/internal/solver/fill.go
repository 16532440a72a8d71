package solver

import (
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// Fill is for a share that takes of a resource what is still missing of a total, in whole steps and as
// far as it is left, besides what Domain.Shares says. It gives what it takes, but no more than is missing.
// A Step of zero stands for a device that gives what Domain.Gives says.
type Fill struct {
	Resource int32
	Step     amount.Amount
}

// take returns what a share gives and what it takes.
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

// fills reports whether what some share takes depends on what is chosen before it. What fails then
// depends on all decisions before, and devices that are alike do not stay so.
func (p *Problem) fills() bool {
	return slices.ContainsFunc(p.Domains, func(d Domain) bool { return d.Fills != nil })
}

// fill has a device that was chosen give to the totals of its option. It returns what it takes for
// that, which is good until the next call.
func (s *store) fill(p, o, device int32) []Draw {
	option := &s.p.Requests[p].Options[o]
	d := &s.p.Domains[option.Domain]
	if d.Fills == nil || len(option.Totals) == 0 {
		return nil
	}
	if s.had == nil {
		s.had = make([][]amount.Amount, len(s.p.Requests))
	}
	if len(s.had[p]) < len(d.Fills) {
		s.had[p] = s.memory.amounts.Take(len(d.Fills))
	}
	s.filled = s.filled[:0]
	for k, total := range option.Totals {
		had := &s.had[p][k]
		gives := d.Gives[k][device]
		if f := d.Fills[k][device]; !f.Step.IsZero() {
			left := &s.left[f.Resource]
			var takes amount.Amount
			gives, takes = f.take(total.Sub(*had), *left)
			s.amounts.set(left, left.Sub(takes))
			s.filled = append(s.filled, Draw{Resource: f.Resource, Amount: takes})
		}
		s.amounts.set(had, had.Add(gives))
	}
	return s.filled
}

// filling works out what the shares of a solution take to fill totals, by choice.
func (s *search) filling() [][]Draw {
	s.undo(mark{})
	takes := make([][]Draw, len(s.chosen))
	for i, c := range s.chosen {
		request := &s.p.Requests[c.Request]
		s.choose(&s.p.Domains[request.Options[c.Option].Domain], request.Claim, c.Device)
		takes[i] = slices.Clone(s.fill(c.Request, c.Option, c.Device))
	}
	return takes
}
