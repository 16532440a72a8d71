package diagnosis

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Diagnosis is about one workload on one node.
type Diagnosis struct {
	cluster   *cluster.Cluster
	placement *cluster.Placement
	programs  *cel.Cache
	pools     []cluster.PoolState // those which reach the node
	requests  map[string]*request // by "claim request", claims as namespace/name
}

// request is an exact request, or one alternative of a prioritized list.
type request struct {
	offers   []offer // the classes that may serve it, by preference
	capacity *resourceapi.CapacityRequirements
}

// offer is a class, nil if it is not there, with the selectors for its devices.
type offer struct {
	class     *resourceapi.DeviceClass
	selectors []resourceapi.DeviceSelector
}

// Finding is a rejection of devices.
type Finding struct {
	// Devices is how many are rejected, Phrase for which reason: "in use".
	Devices int
	Phrase  string
	// Details says more, each in one sentence.
	Details []string
}

// String is a phrase such as "3 in use".
func (f Finding) String() string { return fmt.Sprintf("%d %s", f.Devices, f.Phrase) }

// New looks at the node that the explanation is about.
func New(c *cluster.Cluster, p *cluster.Placement, e *explain.Explanation) *Diagnosis {
	d := &Diagnosis{cluster: c, placement: p, programs: c.Programs(), requests: make(map[string]*request)}
	if node := c.Node(e.Node); node != nil {
		// An error would have been the answer.
		d.pools, _ = c.Reached(node)
	}
	for _, claim := range p.Before {
		for _, terms := range cluster.TermsOf(claim) {
			r := &request{capacity: terms.Capacity}
			for _, o := range terms.Offers {
				r.offers = append(r.offers, offer{c.Class(o.Class), o.Selectors})
			}
			d.requests[claim.Namespace+"/"+claim.Name+" "+terms.Request] = r
		}
	}
	return d
}

// device is one of a pool.
type device struct {
	*cluster.DeviceState
	pool *cluster.PoolState
}

// devices lists those which reach the node, and which the condition holds for.
func (d *Diagnosis) devices(condition func(device) bool) []device {
	var list []device
	for i := range d.pools {
		for k := range d.pools[i].Devices {
			if one := (device{&d.pools[i].Devices[k], &d.pools[i]}); !one.Elsewhere && condition(one) {
				list = append(list, one)
			}
		}
	}
	return list
}

// Request says what rejects devices for a request.
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

// mergeClass counts devices together that several selectors of a class reject.
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
	switch rejection.Reason {
	case explain.RejectedBySelector:
		f = d.bySelector(r, rejection)
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

// Constraint helps with the attribute that a constraint compares: it says which values the
// devices for each request have, or that nothing has the attribute.
func (d *Diagnosis) Constraint(item explain.CoreItem, e *explain.Explanation) []string {
	name := cel.Name{Domain: domain(item.Attribute), ID: id(item.Attribute)}
	if hint := d.missing(attributes, name, ""); hint != "" {
		return []string{hint}
	}
	var hints []string
	for _, report := range e.Requests {
		r := d.requests[report.Claim+" "+report.Request]
		inCore := slices.ContainsFunc(e.Core, func(other explain.CoreItem) bool { return other.Constraint == "" && other.Concerns(&report) })
		if r == nil || !inCore || item.Claim != "" && report.Claim != item.Claim {
			continue
		}
		candidates := d.free(r)
		if len(candidates) > 0 {
			hints = append(hints, "request "+report.Request+": "+tally(name.ID, candidates, func(one device) string {
				value, _ := attributes.value(one, name)
				return value
			}))
		}
	}
	return limit(hints)
}

// free lists the devices that match a request and that nothing holds.
func (d *Diagnosis) free(r *request) []device {
	return d.devices(func(one device) bool {
		return d.firstRejection(r, one) == nil && (len(one.Holders) == 0 || one.Shared) && one.Blocked == ""
	})
}

// Together counts what several requests need and could have, if nothing but their number
// is in the way.
func (d *Diagnosis) Together(e *explain.Explanation) string {
	if len(e.Core) < 2 {
		return ""
	}
	needed := 0
	suitable := make(map[string]bool)
	for _, item := range e.Core {
		if item.Constraint != "" {
			return ""
		}
		for _, report := range e.Requests {
			if !item.Concerns(&report) {
				continue
			}
			r := d.requests[report.Claim+" "+report.Request]
			if r == nil || report.Request != item.Request || report.All {
				return "" // alternatives need different numbers
			}
			needed += report.Needed
			for _, one := range d.free(r) {
				if one.Shared {
					return ""
				}
				suitable[one.pool.Driver+"/"+one.pool.Pool+"/"+one.Name] = true
			}
		}
	}
	if needed <= len(suitable) {
		return ""
	}
	return fmt.Sprintf("together they need %d devices, and %d are there for them", needed, len(suitable))
}
