package allocator

import (
	resourceapi "k8s.io/api/resource/v1"
)

// Problem is what a set of claims asks for, compiled: class and request joined,
// selectors compiled, constraints bound to the requests they cover. It knows
// nothing of nodes or devices, is immutable, and may be used by any number of
// goroutines and for any number of nodes and snapshots.
type Problem struct {
	allocator *Allocator
	claims    []claim
	filters   []usedFilter
	kind      *kind
	byID      []*alternative
	// repeats is set if nodes that are alike have the same answer: a policy of the
	// caller's may tell them apart. wantsAll is set if a request asks for all devices.
	repeats, wantsAll bool
}

// claim is one ResourceClaim of a Problem.
type claim struct {
	object      *resourceapi.ResourceClaim
	requests    []request
	constraints []constraint
}

// request is one entry of a claim's requests: a single alternative, or several of
// which the first that allows a full solution is taken (KEP-4816).
type request struct {
	name         string
	prioritized  bool
	alternatives []*alternative
}

// alternative is an exact request or one subrequest of a prioritized list.
type alternative struct {
	claim, request, index int
	// id numbers the alternatives of a Problem.
	id int
	// name is how results and constraints refer to it: "request" or "request/subrequest".
	name  string
	class *resourceapi.DeviceClass
	// all asks for every matching device; count is meaningless then.
	all         bool
	count       int
	admin       bool
	tolerations []resourceapi.DeviceToleration
	// filter is a position in Problem.filters.
	filter  int
	derived []derivedAttribute
	// constraints are the positions in claim.constraints that cover it.
	constraints []int
}

// ref is the claim as errors and explanations name it.
func (c *claim) ref() string {
	if c.object.Namespace == "" {
		return c.object.Name
	}
	return c.object.Namespace + "/" + c.object.Name
}

// alternatives calls visit for each alternative of the problem, in first-fit order.
func (p *Problem) alternatives(visit func(*claim, *alternative)) {
	for c := range p.claims {
		for r := range p.claims[c].requests {
			for _, alt := range p.claims[c].requests[r].alternatives {
				visit(&p.claims[c], alt)
			}
		}
	}
}

// path is how errors and explanations name an alternative.
func (p *Problem) path(alt *alternative) string {
	return "claim " + p.claims[alt.claim].ref() + ": request " + alt.name
}
