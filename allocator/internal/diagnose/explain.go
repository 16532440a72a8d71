// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

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

// Explain explains why an instance has no solution, from its conflict core.
func Explain(ctx context.Context, in *model.Instance, core []claims.Part) *explain.Explanation {
	e := &explain.Explanation{Node: in.Node.Object.Name}
	for _, pv := range in.Node.View.Pools {
		if !pv.Usable() {
			e.Pools = append(e.Pools, explain.PoolReport{Pool: pools.PoolID(pv.Pool.ID), Incomplete: pv.Incomplete, Invalid: pv.Invalid})
		}
	}
	n := narrator{in: in, inspections: make([]inspection, len(in.Compiled.Alternatives)), core: core}
	for _, alt := range in.Compiled.Alternatives {
		if !alt.Extra {
			n.inspections[alt.ID] = inspect(ctx, in, alt)
			e.Requests = append(e.Requests, n.inspections[alt.ID].RequestReport)
		}
	}
	for _, p := range core {
		if r, _ := in.Compiled.Part(p); r != nil {
			n.requests = append(n.requests, r)
		}
	}
	e.Core, e.Summary = n.narrate()
	e.Summary = fmt.Sprintf("node %s: %s", e.Node, e.Summary)
	for _, p := range e.Pools {
		e.Summary += fmt.Sprintf("; pool %s cannot be used: %s", p.Pool, p.Incomplete+p.Invalid)
	}
	e.NearestMiss = n.nearestMiss()
	return e
}

// inspection is what one alternative finds on the node.
type inspection struct {
	explain.RequestReport
	// lone counts, by reason, the devices that are rejected for this reason only.
	lone []explain.Rejection
}

func inspect(ctx context.Context, in *model.Instance, alt *claims.Alternative) inspection {
	found := inspection{RequestReport: explain.RequestReport{
		Claim:   in.Compiled.Claims[alt.Claim].Ref(),
		Request: alt.Name,
		Needed:  in.Needed(alt),
		All:     alt.All,
		Totals:  totals(alt),
	}}
	for i := range in.Node.List {
		if !in.Node.List[i].OnNode {
			continue
		}
		found.Reachable++
		reasons := in.Node.Rejections(ctx, in.Compiled.Filters[alt.Filter], int32(i))
		if len(reasons) == 0 {
			found.Candidates++
			continue
		}
		found.Rejections = tally(found.Rejections, reasons[0])
		if len(reasons) == 1 {
			found.lone = tally(found.lone, reasons[0])
		}
	}
	order(found.Rejections)
	order(found.lone)
	return found
}

// totals is the text for what the devices of an alternative must have together.
func totals(alt *claims.Alternative) string {
	parts := make([]string, len(alt.Totals))
	for i, total := range alt.Totals {
		parts[i] = fmt.Sprintf("%s of %s", total.Quantity.String(), total.Name)
	}
	return strings.Join(parts, " and ")
}

// tally adds a device to the count of its reason.
func tally(all []explain.Rejection, r explain.Rejection) []explain.Rejection {
	for i := range all {
		if all[i].Reason == r.Reason && all[i].Detail == r.Detail {
			all[i].Devices++
			return all
		}
	}
	return append(all, r)
}

// order sorts rejections by the number of devices, descending.
func order(all []explain.Rejection) {
	slices.SortStableFunc(all, func(a, b explain.Rejection) int { return b.Devices - a.Devices })
}
