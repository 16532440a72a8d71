package allocator

import (
	"context"
	"slices"
)

// explain works out why an instance has no solution, of which the core is known.
func explain(ctx context.Context, in *instance, core []part) *Explanation {
	e := &Explanation{Node: in.node.Name}
	for _, pv := range in.view.Pools {
		if !pv.Usable() {
			e.Pools = append(e.Pools, PoolReport{Pool: pv.Pool.ID, Incomplete: pv.Incomplete, Invalid: pv.Invalid})
		}
	}
	reports := make(map[*alternative]*inspection)
	in.problem.alternatives(func(c *claim, alt *alternative) {
		reports[alt] = inspect(ctx, in, alt)
		e.Requests = append(e.Requests, reports[alt].report)
	})
	n := narrator{in: in, inspections: reports, core: core, explanation: e}
	e.Core = n.coreItems()
	e.NearestMiss = n.nearestMiss()
	e.Summary = n.summary()
	return e
}

// inspection is what one alternative meets on the node.
type inspection struct {
	report RequestReport
	// lone counts, per reason, the devices that are rejected for this reason only.
	lone []Rejection
}

func inspect(ctx context.Context, in *instance, alt *alternative) *inspection {
	found := &inspection{report: RequestReport{
		Claim:   in.problem.claims[alt.claim].ref(),
		Request: alt.name,
		Needed:  in.alternatives[alt.id].needed,
		All:     alt.all,
	}}
	j := judge{in: in, filter: in.problem.filters[alt.filter], domain: &domain{}}
	for i := range in.devices {
		if in.devices[i].onNode {
			found.report.Reachable++
		}
		reasons := j.reasons(ctx, int32(i))
		if len(reasons) == 0 {
			found.report.Candidates++
			continue
		}
		if in.devices[i].onNode || reasons[0].Reason != RejectedByNode {
			found.report.Rejections = tally(found.report.Rejections, reasons[0])
		}
		if len(reasons) == 1 {
			found.lone = tally(found.lone, reasons[0])
		}
	}
	order(found.report.Rejections)
	order(found.lone)
	return found
}

// tally adds a rejection to those of the same reason.
func tally(all []Rejection, r Rejection) []Rejection {
	for i := range all {
		if all[i].Reason == r.Reason && all[i].Detail == r.Detail {
			all[i].Devices += r.Devices
			return all
		}
	}
	return append(all, r)
}

// order puts the rejections of most devices first.
func order(all []Rejection) {
	slices.SortStableFunc(all, func(a, b Rejection) int { return b.Devices - a.Devices })
}
