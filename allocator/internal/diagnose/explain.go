// Package diagnose works out why there is no solution.
package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/pools"
)

// Explain says why an instance has no solution, of which the conflict core is known.
func Explain(ctx context.Context, in *model.Instance, core []claims.Part) *explain.Explanation {
	e := &explain.Explanation{Node: in.Node.Object.Name}
	for _, pv := range in.Node.View.Pools {
		if !pv.Usable() {
			e.Pools = append(e.Pools, explain.PoolReport{Pool: pools.PoolID(pv.Pool.ID), Incomplete: pv.Incomplete, Invalid: pv.Invalid})
		}
	}
	reports := make(map[*claims.Alternative]*inspection)
	for _, alt := range in.Problem.Alternatives {
		reports[alt] = new(inspection)
		if !alt.Extra {
			reports[alt] = inspect(ctx, in, alt)
			e.Requests = append(e.Requests, reports[alt].report)
		}
	}
	n := narrator{in: in, inspections: reports, core: core, explanation: e}
	e.Core = n.coreItems()
	e.NearestMiss = n.nearestMiss()
	e.Summary = n.summary()
	return e
}

// inspection is what one alternative meets on the node.
type inspection struct {
	report explain.RequestReport
	// lone counts, per reason, the devices that are rejected for this reason only.
	lone []explain.Rejection
}

func inspect(ctx context.Context, in *model.Instance, alt *claims.Alternative) *inspection {
	found := &inspection{report: explain.RequestReport{
		Claim:   in.Problem.Claims[alt.Claim].Ref(),
		Request: alt.Name,
		Needed:  in.Needed(alt),
		All:     alt.All,
		Totals:  totals(alt),
	}}
	for i := range in.Node.List {
		onNode := in.Node.List[i].OnNode
		if onNode {
			found.report.Reachable++
		}
		reasons := rejections(ctx, in, alt, int32(i))
		if len(reasons) == 0 {
			found.report.Candidates++
			continue
		}
		if onNode || reasons[0].Reason != explain.RejectedByNode {
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

// totals words what the devices of an alternative must have together.
func totals(alt *claims.Alternative) string {
	parts := make([]string, len(alt.Totals))
	for i, total := range alt.Totals {
		parts[i] = fmt.Sprintf("%s of %s", total.Quantity.String(), total.Name)
	}
	return strings.Join(parts, " and ")
}

// rejections are those for the class that comes closest to having the device.
func rejections(ctx context.Context, in *model.Instance, alt *claims.Alternative, i int32) (closest []explain.Rejection) {
	for o, offer := range alt.Offers {
		reasons := in.Node.Rejections(ctx, in.Problem.Filters[offer.Filter], i)
		if o == 0 || closeness(reasons) > closeness(closest) {
			closest = reasons
		}
	}
	return closest
}

// closeness is higher for a device of the class, and highest if nothing rejects it.
func closeness(reasons []explain.Rejection) int {
	switch at := slices.IndexFunc(reasons, func(r explain.Rejection) bool { return r.Reason == explain.RejectedBySelector }); {
	case len(reasons) == 0:
		return 3
	case at < 0:
		return 2
	case reasons[at].Selector == nil || reasons[at].Selector.Class == "":
		return 1
	}
	return 0
}

// tally counts a device with those that are rejected for the same reason.
func tally(all []explain.Rejection, r explain.Rejection) []explain.Rejection {
	for i := range all {
		if all[i].Reason == r.Reason && all[i].Detail == r.Detail {
			all[i].Devices++
			return all
		}
	}
	return append(all, r)
}

// order puts the rejections of most devices first.
func order(all []explain.Rejection) {
	slices.SortStableFunc(all, func(a, b explain.Rejection) int { return b.Devices - a.Devices })
}
