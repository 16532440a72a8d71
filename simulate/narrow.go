// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// filter is that requests get only devices with a value of an attribute.
type filter struct {
	attribute resourceapi.FullyQualifiedName
	requests  []string
	value     string // as a CEL literal
}

// checkTopologies reports topologies that do not say what they are about.
func checkTopologies(t []Topology, demands []Demand) error {
	for i, topology := range t {
		if (topology.NodeLabel == "") == (topology.DeviceAttribute == "") {
			return fmt.Errorf("topology %d: want either a node label or a device attribute", i)
		}
		if topology.NodeLabel != "" {
			if len(topology.Requests) > 0 {
				return fmt.Errorf("topology %d: requests go with a device attribute", i)
			}
			continue
		}
		if domain, id, qualified := strings.Cut(string(topology.DeviceAttribute), "/"); !qualified || domain == "" || id == "" {
			return fmt.Errorf("topology %d: device attribute %q: want domain/name", i, topology.DeviceAttribute)
		}
		for _, name := range topology.Requests {
			if !slices.ContainsFunc(demands, func(d Demand) bool { return slices.Contains(d.Shape.kind.requests(), name) }) {
				return fmt.Errorf("topology %d: no pod of the gang has a request %q", i, name)
			}
		}
	}
	return nil
}

// requests lists the names of requests in the claims of the pods, and "request/subrequest".
func (k *podKind) requests() []string {
	var names []string
	for _, s := range specsOf(k.entries) {
		for i := range s.Devices.Requests {
			r := &s.Devices.Requests[i]
			names = append(names, r.Name)
			for j := range r.FirstAvailable {
				names = append(names, r.Name+"/"+r.FirstAvailable[j].Name)
			}
		}
	}
	return names
}

// members are demands as they are in a domain of a set of nodes. Pods of which no request gets devices of the domain
// only need the labels of its nodes.
func (m *Sim) members(demands []Demand, t []Topology, d *domain, all Nodes) []member {
	var filters []filter
	var labels []Topology
	var values []string
	for i, topology := range t {
		if topology.DeviceAttribute != "" {
			filters = append(filters, filter{topology.DeviceAttribute, topology.Requests, d.values[i]})
			continue
		}
		labels, values = append(labels, topology), append(values, d.values[i])
	}
	list := make([]member, len(demands))
	for i, demand := range demands {
		list[i] = member{demand, d.on}
		switch shape := demand.Shape; {
		case len(filters) == 0:
		case shape.kind.narrows(filters):
			list[i].Shape = &Shape{Pods: shape.Pods, kind: m.world.narrowedKind(shape.kind, filters)}
		default:
			for _, labelled := range m.domains(labels, all) {
				if slices.Equal(labelled.values, values) {
					list[i].on = labelled.on
				}
			}
		}
	}
	m.look()
	return list
}

// narrows reports whether filters make a difference for the pods.
func (k *podKind) narrows(filters []filter) bool {
	return len(k.extended) > 0 || slices.ContainsFunc(filters, func(f filter) bool { return slices.ContainsFunc(k.requests(), f.concerns) })
}

// narrowedKind is a kind of which requests get only devices that pass filters.
func (w *world) narrowedKind(k *podKind, filters []filter) *podKind {
	key := k.key
	for _, f := range filters {
		key += fmt.Sprintf(" narrowed %q %q %q", f.attribute, f.requests, f.value)
	}
	if known, found := w.kinds.Get(key); found {
		return known
	}
	n := &podKind{key: key, world: w, example: k.example, notLookedAt: k.notLookedAt, shares: k.shares, extended: k.extended, demands: k.demands, base: k.base, variants: []*variant{k.base}, whole: k, filters: filters}
	var extended []*onenode.Spec
	for _, e := range k.entries {
		e.spec = w.narrowedSpec(e.spec, filters)
		n.entries = append(n.entries, e)
	}
	for _, e := range k.extended {
		extended = append(extended, w.narrowedSpec(e.spec, filters))
	}
	return w.intern(n, extended)
}

// narrowedSpec adds filters to requests, as selectors.
func (w *world) narrowedSpec(s *onenode.Spec, filters []filter) *onenode.Spec {
	devices, more := s.Devices.DeepCopy(), s.More
	for _, f := range filters {
		selector := resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: f.expression()}}
		more = narrowExtension(more, f, selector)
		for i := range devices.Requests {
			r := &devices.Requests[i]
			if r.Exactly != nil && f.concerns(r.Name) {
				r.Exactly.Selectors = append(r.Exactly.Selectors, selector)
			}
			for j := range r.FirstAvailable {
				if sub := &r.FirstAvailable[j]; f.concerns(r.Name + "/" + sub.Name) {
					sub.Selectors = append(sub.Selectors, selector)
				}
			}
		}
	}
	return w.Spec(devices, more)
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

// concerns reports whether a request, or "request/subrequest", is filtered.
func (f *filter) concerns(request string) bool {
	name, _, _ := strings.Cut(request, "/")
	return len(f.requests) == 0 || slices.Contains(f.requests, name) || slices.Contains(f.requests, request)
}

// expression is a selector that holds for devices with the value, and fails for none.
func (f *filter) expression() string {
	domain, id, _ := strings.Cut(string(f.attribute), "/")
	attributes := "device.attributes[" + strconv.QuoteToASCII(domain) + "]"
	id = strconv.QuoteToASCII(id)
	return id + " in " + attributes + " && " + attributes + "[" + id + "].includes(" + f.value + ")"
}

// errOtherDomain says that a claim of the pods is allocated outside of the domain.
var errOtherDomain = errors.New("a claim of the pod has devices of another domain")

// passes reports whether what an allocated claim holds passes the filters.
func (f *filter) passes(d *version, rec *claimRecord) bool {
	has := func(driver string, device *resourceapi.Device) bool {
		return slices.Contains(literals(driver, device, f.attribute), f.value)
	}
	for _, held := range rec.held {
		on, _ := d.record(held.node)
		for _, h := range held.holdings {
			pool := on.facts.Pool(h.Device)
			if f.concerns(h.Request) && !has(pool.ID.Driver, pool.Devices[h.Device-pool.First]) {
				return false
			}
		}
	}
	for _, h := range rec.shared {
		pool := d.around.Shared.Pools[h.Pool]
		if f.concerns(h.Request) && !has(pool.ID.Driver, pool.Devices[h.Device]) {
			return false
		}
	}
	return true
}
