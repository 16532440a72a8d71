// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// Policy decides in which order the devices that may serve a request are tried. The order of
// requests, and of the alternatives of a request, stays. The search finds the first solution in
// that order, request by request and device by device. Which claims can be allocated on a node,
// what an explanation says, and which devices allocationMode All gives do not depend on it.
// A search that goes another way may use up its budget where the first fit does not, or the other
// way round.
type Policy interface {
	// Before reports whether a is to be tried before b. Both may serve one request. Devices of
	// which neither comes before the other stay in first-fit order. It must be a strict weak order
	// and safe for concurrent use. A search for n candidates calls it about 2n·log n times.
	Before(a, b Candidate) bool
}

// Remembered is a Policy for which nodes that are alike share an answer, as they do with FirstFit.
// Before must then depend on nothing but
//   - Shared, InUse, Fit and CompareSize of the candidates,
//   - what the devices have of capacities, by name, policies of requests left aside,
//   - Attribute of the candidates, of the names that Reads lists.
//
// So it must not read names of devices, pools, drivers or nodes, nor anything that changes with
// time or chance. A policy that does has answers of other nodes.
type Remembered interface {
	Policy
	// Reads lists the attributes that Before reads, and is called once. Nodes whose devices differ in
	// one of them do not share answers.
	Reads() []resourceapi.FullyQualifiedName
}

// Candidate is a device that may serve a request, as a Policy sees it, with what was in use before:
// what the same problem chooses does not count. Parts are rounded to 24 binary places.
type Candidate struct {
	Device pools.Device
	// Shared is set if shares of the device are allocated already.
	Shared bool
	// InUse is the largest part in use, from 0 to 1, of any capacity of a device that can be shared,
	// and of any counter that the device draws on. It is 0 for a whole device without counters.
	InUse float64
	// Fit is the mean, over the capacities in capacity.requests of the request, of what is asked for
	// divided by what is free of the device: 1 if nothing would be left. It is 0 for a
	// request that asks for no capacity.
	Fit float64

	of *model.Candidate
}

// CompareSize compares what taking the device takes away from others: what is free of each of its
// capacities, in the order of their names, and then the sum of the parts that it would draw of
// counters, which is 0 for a device that is Shared. The first difference decides: -1 if c is smaller,
// 1 if it is larger, 0 if there is none. A device has nothing of a capacity that it does not list. Both
// must be of one node, as those are that Before gets. It takes time in proportion to the capacities.
func (c Candidate) CompareSize(other Candidate) int {
	if c.of == nil || other.of == nil {
		return 0 // not from an Allocator
	}
	return c.of.CompareSize(other.of)
}

// Attribute returns an attribute of the device, which may leave out the domain of the name if that is
// the name of its driver.
func (c Candidate) Attribute(name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	p, i := pool.Handle(c.Device).Split()
	return model.Published(&p.Devices[i], name)
}

func candidate(c *model.Candidate) Candidate {
	return Candidate{Device: pools.Device(c.Device), Shared: c.Shared, InUse: c.InUse, Fit: c.Fit, of: c}
}

// FirstFit prefers devices in pool, slice and device order, as kube-scheduler does.
type FirstFit struct{ noReads }

// noReads is for policies that read no attributes.
type noReads struct{}

// Reads implements Remembered.
func (noReads) Reads() []resourceapi.FullyQualifiedName { return nil }

// Before implements Policy.
func (FirstFit) Before(a, b Candidate) bool { return false }

// LeastWaste prefers the device that has the least beyond what the request asks for. For a request
// with capacity.requests that is the one with the largest Fit; of devices that fit equally, and for
// other requests, it is the smallest one by CompareSize.
type LeastWaste struct{ noReads }

// Before implements Policy.
func (LeastWaste) Before(a, b Candidate) bool {
	if a.Fit != b.Fit {
		return a.Fit > b.Fit
	}
	return a.CompareSize(b) < 0
}

// Pack prefers devices of which most is in use: the largest InUse, then those that are Shared. So
// shares come together on few devices, and partitions on few counter sets. Whole devices without
// counters stay in first-fit order.
type Pack struct{ noReads }

// Before implements Policy.
func (Pack) Before(a, b Candidate) bool {
	if a.InUse != b.InUse {
		return a.InUse > b.InUse
	}
	return a.Shared && !b.Shared
}

// Spread prefers devices of which least is in use. It is Pack the other way round.
type Spread struct{ noReads }

// Before implements Policy.
func (Spread) Before(a, b Candidate) bool { return Pack{}.Before(b, a) }

// PolicyNamed returns FirstFit, LeastWaste, Pack or Spread, as configurations name them. The empty
// name stands for FirstFit. The error lists the names.
func PolicyNamed(name string) (Remembered, error) {
	named := map[string]Remembered{"": FirstFit{}, "FirstFit": FirstFit{}, "LeastWaste": LeastWaste{}, "Pack": Pack{}, "Spread": Spread{}}
	if policy := named[name]; policy != nil {
		return policy, nil
	}
	return nil, fmt.Errorf("device policy %q is not known: want FirstFit, LeastWaste, Pack or Spread", name)
}
