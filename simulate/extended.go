package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// extensionOf is what a claim asks for beyond its spec, nothing unless Options.Extensions is set.
func (w *world) extensionOf(claim *resourceapi.ResourceClaim) (extension.Claim, error) {
	if !w.options.Extensions {
		return extension.Claim{}, nil
	}
	return extension.Of(claim)
}

// specOfClaim returns the spec of a claim with what it asks for beyond it. The error is about its annotation.
func (w *world) specOfClaim(claim *resourceapi.ResourceClaim) (*spec, error) {
	if known := w.specOf[&claim.Spec.Devices]; known != nil {
		return known, nil
	}
	more, err := w.extensionOf(claim)
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return w.extendedSpec(&claim.Spec.Devices, more), nil
}

// appendExtension appends bytes that are equal for equal extensions and classes.
func (w *world) appendExtension(to []byte, more extension.Claim) []byte {
	if more.IsZero() {
		return to
	}
	text, err := json.Marshal(more)
	if err != nil {
		panic("an extension cannot be encoded: " + err.Error()) // it is plain data
	}
	return appendText(append(to, 0xff), string(text))
}

// eachRequest visits what the requests say about single devices, once for each class that may serve one.
func (s *spec) eachRequest(visit func(requestFilter)) {
	eachRequest(&s.devices, visit)
	for _, name := range slices.Sorted(maps.Keys(s.more.Requests)) {
		for _, class := range s.more.Requests[name].Classes {
			visit(requestFilter{class: class.DeviceClassName, selectors: class.Selectors})
		}
	}
}

// addSpecReads finds out what a claim reads, with what it asks for beyond its spec.
func (w *world) addSpecReads(r *reads, s *spec) {
	w.addReads(r, &s.devices)
	s.eachRequest(func(f requestFilter) { w.addFilterReads(r, f) })
	r.constraints = append(r.constraints, s.more.MatchAcross...)
	for _, preference := range s.more.Preferred {
		r.constraints = append(r.constraints, preference.MatchAttribute)
	}
}

// narrowExtension adds a filter to the classes that may serve requests besides their own.
func narrowExtension(more extension.Claim, f filter, selector resourceapi.DeviceSelector) extension.Claim {
	requests := make(map[string]extension.Request, len(more.Requests))
	for name, request := range more.Requests {
		if request.Classes = slices.Clone(request.Classes); f.concerns(name) {
			for i := range request.Classes {
				request.Classes[i].Selectors = append(slices.Clip(request.Classes[i].Selectors), selector)
			}
		}
		requests[name] = request
	}
	more.Requests = requests
	return more
}

// across reports whether a claim is to match others of its pod.
func (s *spec) across() bool {
	return len(s.more.MatchAcross) > 0 || slices.ContainsFunc(s.more.Preferred, func(p extension.Preference) bool { return p.Across })
}

// linked reports whether claims that are allocated have a say in which devices the others get.
func (a *asked) linked() bool {
	if len(a.used) == 0 || !a.world.options.Extensions {
		return false
	}
	return slices.ContainsFunc(a.kind.entries, func(e claimEntry) bool { return e.spec.across() })
}

// errLinkUnknown says that it is not known which devices a claim has that others are to match.
var errLinkUnknown = errors.New("other claims of the pod are to match one of which the devices are not known: it has admin access, or is on a node that is undecided")

// linkedProblem compiles what the open claims ask for, with the devices that others have as seen from a node.
func (a *asked) linkedProblem(open []*resourceapi.ResourceClaim, extensions []extension.Claim, n Node, inv *inventory) (*allocator.Problem, error) {
	open, extensions = slices.Clip(open), slices.Clip(extensions)
	for i := range a.used {
		rec, s := &a.used[i], a.usedSpecs[i]
		if n.template != nil && n.template.choice != nil && rec.tied != nil || slices.ContainsFunc(s.devices.Requests, func(r resourceapi.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
		}) {
			return nil, errLinkUnknown
		}
		claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.devices}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		for _, id := range a.devicesOf(rec, n, inv) {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Driver: id.Driver, Pool: id.Pool, Device: id.Device})
		}
		open, extensions = append(open, claim), append(extensions, s.more)
	}
	return a.world.allocator.CompileExtended(open, extensions, a.world.classes)
}

// devicesOf names the devices that a claim has. All that other nodes have are out of sight alike.
func (a *asked) devicesOf(rec *claimRecord, n Node, inv *inventory) []pools.DeviceID {
	var list []pools.DeviceID
	for _, held := range rec.held {
		for _, h := range held.holdings {
			id := pools.DeviceID{Device: "of another node"}
			if held.node == n {
				id = inv.deviceID(h.device)
			}
			list = append(list, id)
		}
	}
	for _, h := range rec.shared {
		pool := a.shared.pools[h.pool]
		list = append(list, pools.DeviceID{Driver: pool.id.Driver, Pool: pool.id.Name, Device: pool.devices[h.device].Name})
	}
	for _, t := range rec.unlisted {
		list = append(list, t.device)
	}
	return list
}

// servedLinked is served where allocated claims have a say. Nothing of it is remembered.
func (a *asked) servedLinked(c *call, d *version, n Node, rec *nodeRecord, q *question) (*answer, error) {
	if c.budget <= 0 {
		return spent, nil
	}
	objects, extensions := q.claims()
	problem, err := a.linkedProblem(objects, extensions, n, rec.inventory)
	if err != nil {
		return &answer{verdict: failed, err: err}, nil //nolint:nilerr // it is in the answer
	}
	r := newRoom(a.world.gates, rec.inventory.node, slices.Concat(rec.inventory.slices(), d.shared.published))
	found, err := a.world.search(c, r, &question{specs: q.specs, problem: problem}, rec.inventory, r.inUse(d.taken(rec.inventory, rec.state.uses)), &crossing{shared: d.shared})
	if err != nil {
		return nil, err
	}
	found.next = rec.state.change(found.own, true)
	return found, nil
}

// claims are nameless claims that ask the question, with what they ask for beyond their specs.
func (q *question) claims() ([]*resourceapi.ResourceClaim, []extension.Claim) {
	claims, extensions := make([]*resourceapi.ResourceClaim, len(q.specs)), make([]extension.Claim, len(q.specs))
	for i, s := range q.specs {
		claims[i] = &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.devices}}
		claims[i].Namespace, claims[i].Name = "simulate", fmt.Sprintf("claim-%d", i)
		extensions[i] = s.more
	}
	return claims, extensions
}

// problemOn is the one for a variant on a node under its name.
func (a *asked) problemOn(number int16, n Node, inv *inventory) (*allocator.Problem, error) {
	q := a.question(number)
	if !a.linked() || len(q.specs) == 0 {
		return q.problem, nil
	}
	objects, extensions := q.claims()
	return a.linkedProblem(objects, extensions, n, inv)
}
