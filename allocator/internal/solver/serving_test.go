package solver_test

import (
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// Eight claims want two devices of one value each, and there are seven values, each for one claim. That is found out at
// once, whatever it is that keeps a value from serving two claims.
func TestValuesThatServeTooFewClaims(t *testing.T) {
	const values, claims = 7, 8
	for name, tc := range map[string]struct {
		devices int // of each value
		allowed int // of those
		draws   int // of each device, on what is left for the value
		differ  []int32
	}{
		"devices":            {devices: 3, allowed: 3},
		"devices that serve": {devices: 5, allowed: 3},
		"what is left":       {devices: 4, allowed: 4, draws: 1},
		"values that differ": {devices: 4, allowed: 4, differ: []int32{0, 0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &solver.Problem{Claims: claims, MostOfClaim: 32}
			value, unit, allowed := new(solver.Column), new(solver.Column), bitset.New(uint(values*tc.devices))
			for v := range int32(values) {
				for k := range tc.devices {
					i := len(p.Devices)
					d := solver.Device{Pool: -1}
					if tc.draws > 0 {
						d = solver.Device{Draws: []solver.Draw{{Resource: v, Amount: units(tc.draws)}}}
					}
					p.Devices = append(p.Devices, d)
					value.Values = append(value.Values, []int32{v})
					if tc.differ != nil {
						unit.Values = append(unit.Values, []int32{tc.differ[k]})
					}
					allowed.SetTo(uint(i), k < tc.allowed)
				}
				if tc.draws > 0 {
					p.Left, p.PoolOf, p.KindOf = append(p.Left, units(3*tc.draws)), append(p.PoolOf, 0), append(p.KindOf, v)
				}
			}
			for claim := range int32(claims) {
				d := solver.Domain{Claim: claim, Allowed: allowed}
				cover := func(kind solver.RelationKind, column *solver.Column) {
					d.Covers = append(d.Covers, solver.Cover{Relation: int32(len(p.Relations)), Column: column})
					p.Relations = append(p.Relations, solver.Relation{Kind: kind})
				}
				cover(solver.Match, value)
				if tc.differ != nil {
					cover(solver.Distinct, unit)
				}
				p.Domains = append(p.Domains, d)
				p.Requests = append(p.Requests, solver.Request{Claim: claim, Options: []solver.Option{{Domain: claim, Count: 2}}})
			}
			var solve solver.Solver
			got := solve.Solve(t.Context(), p, 1<<20, solver.AllRules)
			if got.Verdict != solver.None || got.Stats.Steps > 200 {
				t.Errorf("the verdict is %d after %d steps", got.Verdict, got.Stats.Steps)
			}
		})
	}
}
