// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// extensionOf is what a claim asks for beyond its spec, nothing unless Options.Extensions is set.
func (w *world) extensionOf(claim *resourceapi.ResourceClaim) (extension.Claim, error) {
	if !w.options.Extensions {
		return extension.Claim{}, nil
	}
	return extension.Of(claim)
}

// specOfClaim returns the spec of a claim with what it asks for beyond it. The error is about its annotation.
func (w *world) specOfClaim(claim *resourceapi.ResourceClaim) (*onenode.Spec, error) {
	if known := w.specOf[&claim.Spec.Devices]; known != nil {
		return known, nil
	}
	more, err := w.extensionOf(claim)
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return w.Spec(&claim.Spec.Devices, more), nil
}

// linked reports whether claims that are allocated have a say in which devices the others get.
func (a *asked) linked() bool {
	if len(a.used) == 0 || !a.world.options.Extensions {
		return false
	}
	return slices.ContainsFunc(a.kind.entries, func(e claimEntry) bool { return e.spec.Across() })
}

// errLinkUnknown says that it is not known which devices a claim has that others are to match.
var errLinkUnknown = errors.New("other claims of the pod are to match one whose devices are not known: it has admin access, or is on an undecided node")

// linkedProblem compiles what the open claims ask for, with the devices that others have as seen from a node.
func (a *asked) linkedProblem(open []*resourceapi.ResourceClaim, extensions []extension.Claim, n Node, inv *nodeFacts) (*allocator.Problem, error) {
	open, extensions = slices.Clip(open), slices.Clip(extensions)
	for i := range a.used {
		rec, s := &a.used[i], a.usedSpecs[i]
		if n.template != nil && n.template.choice != nil && rec.tied != nil || slices.ContainsFunc(s.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
		}) {
			return nil, errLinkUnknown
		}
		claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.Devices}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		for _, id := range a.devicesOf(rec, n, inv) {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Driver: id.Driver, Pool: id.Pool, Device: id.Device})
		}
		open, extensions = append(open, claim), append(extensions, s.More)
	}
	return a.world.Compile(open, extensions)
}

// devicesOf names the devices that a claim has. All that other nodes have are out of sight alike.
func (a *asked) devicesOf(rec *claimRecord, n Node, inv *nodeFacts) []pools.DeviceID {
	var list []pools.DeviceID
	for _, held := range rec.held {
		for _, h := range held.holdings {
			id := pools.DeviceID{Device: "of another node"}
			if held.node == n {
				id = inv.DeviceID(h.Device)
			}
			list = append(list, id)
		}
	}
	for _, h := range rec.shared {
		list = append(list, a.shared.Pools[h.Pool].DeviceID(h.Device))
	}
	for _, t := range rec.unlisted {
		list = append(list, t.device)
	}
	return list
}

// servedLinked is served where allocated claims have a say. Nothing of it is remembered.
func (a *asked) servedLinked(c *onenode.Call, d *version, n Node, rec *nodeRecord, q *onenode.Question) (*onenode.Answer, error) {
	objects, extensions := q.Claims()
	problem, err := a.linkedProblem(objects, extensions, n, rec.facts)
	if err != nil {
		return &onenode.Answer{Verdict: onenode.Failed, Err: err}, nil //nolint:nilerr // it is in the answer
	}
	return a.world.AskOnce(c, rec.facts.Inventory, rec.state, d.around, problem)
}

// problemOn is the one for a variant on a node under its name.
func (a *asked) problemOn(number int16, n Node, inv *nodeFacts) (*allocator.Problem, error) {
	q := a.question(number)
	if !a.linked() || len(q.Specs) == 0 {
		return q.Problem, nil
	}
	objects, extensions := q.Claims()
	return a.linkedProblem(objects, extensions, n, inv)
}
