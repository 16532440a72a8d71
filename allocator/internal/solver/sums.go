package solver

import (
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// provides reports whether the devices chosen for an option give its totals together.
func (s *search) provides(p, o int32) bool {
	option := &s.p.Requests[p].Options[o]
	filled := s.p.Domains[option.Domain].Fills != nil
	for k, total := range option.Totals {
		if filled && s.had[p][k].Cmp(total) < 0 || !filled && s.given(p, o, k).Cmp(total) < 0 {
			return false
		}
	}
	return true
}

// given is what the devices chosen for an option so far give of a total, at most if shares are filled.
func (s *search) given(p, o int32, total int) (sum amount.Amount) {
	gives := s.p.Domains[s.p.Requests[p].Options[o].Domain].Gives[total]
	for i := len(s.chosen) - 1; i >= 0 && s.chosen[i].Request == p; i-- {
		sum = sum.Add(gives[s.chosen[i].Device])
	}
	return sum
}

// sums fails if an opening cannot have its totals: the viable devices that give most of one, as many
// as there are slots, give too little with what is chosen already.
type sums struct{}

// hasTotals reports whether any option has totals.
func (p *Problem) hasTotals() bool {
	return slices.ContainsFunc(p.Requests, func(r Request) bool {
		return !r.Off && slices.ContainsFunc(r.Options, func(o Option) bool { return len(o.Totals) > 0 })
	})
}

func (sums) fails(s *search, open []opening) ([]opening, bool) {
	for k := range open {
		o := &open[k]
		if !slices.ContainsFunc(o.options, func(option int32) bool { return s.mayProvide(o, option) }) {
			return open[k : k+1], true
		}
	}
	return nil, false
}

// mayProvide reports whether viable devices give the totals of an option, each total by itself.
func (s *search) mayProvide(o *opening, option int32) bool {
	asked := &s.p.Requests[o.request].Options[option]
	viable := s.ahead.viable[asked.Domain]
	for k, total := range asked.Totals {
		gives := s.p.Domains[asked.Domain].Gives[k]
		list := s.ahead.giving[:0]
		for i, ok := viable.NextSet(o.from); ok; i, ok = viable.NextSet(i + 1) {
			list = append(list, gives[i])
		}
		s.look(len(list))
		slices.SortFunc(list, func(a, b amount.Amount) int { return b.Cmp(a) })
		s.ahead.giving = list
		var most amount.Amount
		if o.rest {
			most = s.given(o.request, option, k)
		}
		for _, each := range list[:min(s.needed(o, option), len(list))] {
			most = most.Add(each)
		}
		if most.Cmp(total) < 0 {
			return false
		}
	}
	return true
}
