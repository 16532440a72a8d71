package model

import (
	"slices"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

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
					fills[t] = b.fills.Take(len(in.Node.List))
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

// filled names the capacities that are taken. Those of devices are the last resources.
func (f *frame) filled(draws []solver.Draw) (list []Filled) {
	first := len(f.poolOf) - len(f.capacities)
	for _, draw := range draws {
		list = append(list, Filled{Capacity: f.capacities[int(draw.Resource)-first].name, Amount: draw.Amount})
	}
	return list
}
