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
			if !slices.ContainsFunc(demands, func(d Demand) bool { return d.Shape.kind.requests(name) }) {
				return fmt.Errorf("topology %d: no pod of the gang has a request %q", i, name)
			}
		}
	}
	return nil
}

// requests reports whether a claim of the pods has a request or subrequest of that name.
func (k *podKind) requests(name string) bool {
	found := false
	for _, e := range k.entries {
		for i := range e.spec.Devices.Requests {
			r := &e.spec.Devices.Requests[i]
			found = found || r.Name == name
			for j := range r.FirstAvailable {
				found = found || r.Name+"/"+r.FirstAvailable[j].Name == name
			}
		}
	}
	return found
}

// narrowed are demands that see only devices with the values of a domain.
func (m *Sim) narrowed(demands []Demand, t []Topology, values []string) []Demand {
	var filters []filter
	for i, topology := range t {
		if topology.DeviceAttribute != "" {
			filters = append(filters, filter{topology.DeviceAttribute, topology.Requests, values[i]})
		}
	}
	if len(filters) == 0 {
		return demands
	}
	list := slices.Clone(demands)
	for i := range list {
		shape := *list[i].Shape
		shape.kind = m.world.narrowedKind(shape.kind, filters)
		list[i].Shape = &shape
	}
	m.look()
	return list
}

// narrowedKind is a kind of which requests get only devices that pass filters.
func (w *world) narrowedKind(k *podKind, filters []filter) *podKind {
	key := k.key()
	for _, f := range filters {
		key += fmt.Sprintf(" narrowed %q %q %q", f.attribute, f.requests, f.value)
	}
	if known := w.knownKind(key); known != nil {
		return known
	}
	n := &podKind{world: w, example: k.example, shares: k.shares, extended: k.extended, demands: k.demands, base: k.base, variants: []*variant{k.base}, whole: k, filters: filters}
	var extended []*onenode.Spec
	for _, e := range k.entries {
		e.spec = w.narrowedSpec(e.spec, filters)
		n.entries = append(n.entries, e)
	}
	for _, e := range k.extended {
		extended = append(extended, w.narrowedSpec(e.spec, filters))
	}
	return w.intern(key, n, extended)
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
