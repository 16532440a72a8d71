// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/pools"
)

// Policy decides in which order the candidates of a request are tried. The order of requests, and of the
// alternatives of a request, stays. The search finds the first solution in that order, request by request and
// device by device. A policy does not change which claims can be allocated on a node, what an explanation says,
// or which devices allocationMode All gives. But a search in another order may spend its budget where first fit
// does not, or the other way round.
type Policy interface {
	// Before reports whether a is to be tried before b. Both may serve one request. Devices of which neither
	// comes before the other stay in first-fit order. It must be a strict weak order and safe for concurrent
	// use. A search for n candidates calls it about 2n·log n times.
	Before(a, b Candidate) bool
}

// Remembered is a Policy with which equivalent nodes share an answer, as they do with FirstFit. Before must
// then depend on nothing but
//   - Shared, InUse, Fit and CompareSize of the candidates,
//   - the amounts of the devices' capacities, by name, without their request policies,
//   - Attribute of the candidates, for the names that Reads lists.
//
// So it must not read names of devices, pools, drivers or nodes, nor anything that changes with time or chance.
// A policy that does gets answers that were computed for other nodes.
type Remembered interface {
	Policy
	// Reads lists the attributes that Before reads. It is called once. Nodes whose devices differ in one of
	// them do not share answers.
	Reads() []resourceapi.FullyQualifiedName
}

// Candidate is a device that may serve a request, as a Policy sees it. Usage is that before the search: devices
// that the search itself chose do not count. Fractions are rounded to 24 binary places.
type Candidate struct {
	Device pools.Device
	// Shared is set if shares of the device are allocated already.
	Shared bool
	// InUse is the largest fraction in use, from 0 to 1. It covers the capacities of a shareable device, and the
	// counters that the device draws on. It is 0 for a whole device without counters.
	InUse float64
	// Fit is the mean over the capacities in capacity.requests of the request. Each counts as the amount asked
	// for, divided by the amount that is free on the device: 1 if nothing would be left. It is 0 for a request
	// that asks for no capacity.
	Fit float64

	of *model.Candidate
}

// CompareSize compares what is lost to others if the device is taken: first the free amount of each capacity,
// in the order of names, then the sum of the fractions that it would draw of counters. That sum is 0 for a
// device that is Shared. The first difference decides: -1 if c is smaller, 1 if it is larger, 0 if there is
// none. A capacity that a device does not list counts as zero. Both candidates must be of one node, as those
// passed to Before are. It takes time in proportion to the number of capacities.
func (c Candidate) CompareSize(other Candidate) int {
	if c.of == nil || other.of == nil {
		return 0 // not from an Allocator
	}
	return c.of.CompareSize(other.of)
}

// Attribute returns an attribute of the device. A device may publish it without a domain if the domain is the
// name of its driver.
func (c Candidate) Attribute(name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	p, i := pool.Handle(c.Device).Split()
	return shape.Published(p.Devices[i].Shape.Driver, p.Devices[i].Object.Attributes, name)
}

func candidate(c *model.Candidate) Candidate {
	return Candidate{Device: pools.Device(c.Device), Shared: c.Shared, InUse: c.InUse, Fit: c.Fit, of: c}
}

// FirstFit prefers devices in pool, slice and device order, as kube-scheduler does.
type FirstFit struct{ noReads }

// noReads implements Remembered for policies that read no attributes.
type noReads struct{}

// Reads implements Remembered.
func (noReads) Reads() []resourceapi.FullyQualifiedName { return nil }

// Before implements Policy.
func (FirstFit) Before(a, b Candidate) bool { return false }

// LeastWaste prefers the device that has the least beyond what the request asks for. With capacity.requests it
// is the device with the largest Fit. Among equal ones, and for other requests, it is the smallest by
// CompareSize.
type LeastWaste struct{ noReads }

// Before implements Policy.
func (LeastWaste) Before(a, b Candidate) bool {
	if a.Fit != b.Fit {
		return a.Fit > b.Fit
	}
	return a.CompareSize(b) < 0
}

// Pack prefers the devices with the largest InUse, then those that are Shared. So shares gather on few devices,
// and partitions on few counter sets. Whole devices without counters stay in first-fit order.
type Pack struct{ noReads }

// Before implements Policy.
func (Pack) Before(a, b Candidate) bool {
	if a.InUse != b.InUse {
		return a.InUse > b.InUse
	}
	return a.Shared && !b.Shared
}

// Spread prefers the devices with the smallest InUse. It is the reverse of Pack.
type Spread struct{ noReads }

// Before implements Policy.
func (Spread) Before(a, b Candidate) bool { return Pack{}.Before(b, a) }

// PolicyNamed returns FirstFit, LeastWaste, Pack or Spread by its name in a configuration. The empty name is
// FirstFit. The error lists the names.
func PolicyNamed(name string) (Remembered, error) {
	named := map[string]Remembered{"": FirstFit{}, "FirstFit": FirstFit{}, "LeastWaste": LeastWaste{}, "Pack": Pack{}, "Spread": Spread{}}
	if policy := named[name]; policy != nil {
		return policy, nil
	}
	return nil, fmt.Errorf("device policy %q is not known: want FirstFit, LeastWaste, Pack or Spread", name)
}
