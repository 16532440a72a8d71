// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Diagnosis explains refusals of one workload, for one node at a time.
type Diagnosis struct {
	// Brief makes Findings have no Details.
	Brief bool

	cluster   *cluster.Cluster
	placement *cluster.Placement
	programs  *cel.Cache
	pools     []*cluster.PoolState             // pools that reach the node
	requests  map[string]*request              // by "claim request", with the claim as namespace/name
	rejected  map[*request][]*explain.Selector // by the node's device: see rejections
	published map[kind]domains
	parts     map[string][]string // parts of expressions
}

// request is an exact request, or one alternative of a prioritized list.
type request struct {
	offers   []offer // the permitted classes, in the order of preference
	capacity *resourceapi.CapacityRequirements
}

// offer is a permitted class, nil if it does not exist, with all selectors for its devices in the
// order of evaluation.
type offer struct {
	class     *resourceapi.DeviceClass
	selectors []explain.Selector
}

// Finding is a group of devices that are rejected for one reason.
type Finding struct {
	// Devices is the number of devices. Phrase is the reason, such as "in use".
	Devices int
	Phrase  string
	// Details has more about the reason.
	Details []Detail
}

// String returns a phrase such as "3 in use".
func (f Finding) String() string { return fmt.Sprintf("%d %s", f.Devices, f.Phrase) }

// New returns a Diagnosis without a node: see At.
func New(c *cluster.Cluster, p *cluster.Placement) *Diagnosis {
	d := &Diagnosis{
		cluster: c, placement: p, programs: c.Programs(), requests: make(map[string]*request),
		published: make(map[kind]domains), parts: make(map[string][]string),
	}
	for _, claim := range p.Before {
		for _, terms := range cluster.TermsOf(claim) {
			r := &request{capacity: terms.Capacity}
			for _, o := range terms.Offers {
				class := c.Class(o.Class)
				r.offers = append(r.offers, offer{class, inOrder(class, o.Selectors)})
			}
			d.requests[claim.Namespace+"/"+claim.Name+" "+terms.Request] = r
		}
	}
	return d
}

// At sets the node of the diagnosis.
func (d *Diagnosis) At(node string) {
	d.pools, d.rejected = nil, make(map[*request][]*explain.Selector)
	if object := d.cluster.Node(node); object != nil {
		// the error was reported when the workload was placed
		d.pools, _ = d.cluster.Reached(object)
	}
}

// device is a device with its pool.
type device struct {
	*cluster.DeviceState
	pool *cluster.PoolState
	// position is the index among the node's devices.
	position int
}

// devices returns the devices that reach the node and meet the condition.
func (d *Diagnosis) devices(condition func(device) bool) []device {
	var list []device
	position := 0
	for i := range d.pools {
		for k := range d.pools[i].Devices {
			if one := (device{&d.pools[i].Devices[k], d.pools[i], position}); !one.Elsewhere {
				position++
				if condition(one) {
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// Request returns the findings for a request.
func (d *Diagnosis) Request(report explain.RequestReport) []Finding {
	r := d.requests[report.Claim+" "+report.Request]
	if r == nil {
		return nil
	}
	var findings []Finding
	for _, rejection := range report.Rejections {
		findings = append(findings, d.finding(r, rejection))
	}
	return mergeClass(findings)
}

// mergeClass merges the findings of several selectors of one class.
func mergeClass(findings []Finding) []Finding {
	var merged []Finding
	for _, f := range findings {
		at := slices.IndexFunc(merged, func(m Finding) bool { return m.Phrase == f.Phrase })
		if at < 0 {
			merged = append(merged, f)
			continue
		}
		merged[at].Devices += f.Devices
		merged[at].Details = append(merged[at].Details, f.Details...)
	}
	return merged
}

func (d *Diagnosis) finding(r *request, rejection explain.Rejection) Finding {
	f := Finding{Devices: rejection.Devices, Phrase: rejection.Phrase()}
	if rejection.Reason == explain.RejectedBySelector {
		return d.bySelector(r, rejection)
	}
	if d.Brief {
		return f
	}
	switch rejection.Reason {
	case explain.RejectedByUse:
		f.Details = d.heldBy(r)
	case explain.RejectedByTaint:
		f.Details = d.fromRules(rejection.Detail)
	case explain.RejectedByCounter:
		f.Details = d.counters(r, rejection.Counter)
	case explain.RejectedByCapacity:
		f.Details = d.capacities(r)
	}
	return f
}

// Constraint returns details about the attribute of a constraint: the values of the devices for
// each request, or that no device has the attribute.
func (d *Diagnosis) Constraint(item explain.CoreItem, e *explain.Explanation) []Detail {
	name := cel.Name{Domain: domain(item.Attribute), ID: id(item.Attribute)}
	if hint := d.missing(attributes, name, ""); hint != "" {
		return []Detail{plain(hint)}
	}
	var hints []Detail
	for _, report := range e.Requests {
		r := d.requests[report.Claim+" "+report.Request]
		inCore := slices.ContainsFunc(e.Core, func(other explain.CoreItem) bool { return other.Constraint == "" && other.Concerns(&report) })
		if r == nil || !inCore || item.Claim != "" && report.Claim != item.Claim {
			continue
		}
		candidates := d.free(r)
		if len(candidates) > 0 {
			hints = append(hints, Detail{Text: "request " + report.Request + ": ", Counts: []Counts{valuesOf(attributes, name, candidates)}})
		}
	}
	return limitDetails(hints)
}

// free returns the devices that match a request and have no holder.
func (d *Diagnosis) free(r *request) []device {
	return d.devices(func(one device) bool {
		return d.firstRejection(r, one) == nil && (len(one.Holders) == 0 || one.Shared) && one.Blocked == ""
	})
}

// Together compares how many devices several requests need together and how many are free, if only
// their number prevents allocation. Otherwise it returns nil.
func (d *Diagnosis) Together(e *explain.Explanation) *Detail {
	if len(e.Core) < 2 {
		return nil
	}
	needed := 0
	suitable := make(map[string]bool)
	for _, item := range e.Core {
		if item.Constraint != "" {
			return nil
		}
		for _, report := range e.Requests {
			if !item.Concerns(&report) {
				continue
			}
			r := d.requests[report.Claim+" "+report.Request]
			if r == nil || report.Request != item.Request || report.All {
				return nil // alternatives need different numbers of devices
			}
			needed += report.Needed
			for _, one := range d.free(r) {
				if one.Shared {
					return nil
				}
				suitable[one.pool.Driver+"/"+one.pool.Pool+"/"+one.Name] = true
			}
		}
	}
	if needed <= len(suitable) {
		return nil
	}
	together := plain(fmt.Sprintf("together they need %d devices, and %d are there for them", needed, len(suitable)))
	return &together
}
