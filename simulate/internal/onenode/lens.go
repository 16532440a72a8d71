// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/pools"
)

// Lens is what all questions so far read of devices. Devices that agree in it are equal, and so
// are nodes with such devices: a unique serial number makes no difference as long as nobody asks
// for it. A question that reads more makes a wider lens, which tells more nodes apart.
//
// Capacity, taints, counters and all else but attributes are always compared as a whole.
type Lens struct {
	gates pools.Gates
	*covered

	mu       sync.Mutex
	devices  map[string]uint32 // numbers of equal devices
	values   map[string]uint32 // numbers of equal lists of values
	contents map[string]*content
}

// covered is what a lens sees. It is immutable.
type covered struct {
	// all is set if some expression may depend on any attribute.
	all bool
	// expressions are the attributes that CEL expressions read, domains those of which they ask
	// whether anything is in them.
	expressions map[cel.Name]bool
	domains     map[string]bool
	// constraints are the attributes that constraints compare. Only which values are equal
	// matters of these, not what they are.
	constraints map[resourceapi.FullyQualifiedName]bool

	sortedExpressions []cel.Name
	sortedConstraints []resourceapi.FullyQualifiedName
}

// newLens is a lens that knows nothing.
func newLens(gates pools.Gates, what *covered) *Lens {
	return &Lens{gates: gates, covered: what, devices: make(map[string]uint32), values: make(map[string]uint32), contents: make(map[string]*content)}
}

// reads is what one question reads.
type reads struct {
	all         bool
	expressions []cel.Name
	domains     []string
	constraints []resourceapi.FullyQualifiedName
}

// addPolicy adds what the choice of devices reads, whatever is asked.
func (r *reads) addPolicy(policy allocator.Remembered, topology []resourceapi.FullyQualifiedName) {
	r.constraints = append(r.constraints, topology...)
	if policy == nil {
		return
	}
	for _, name := range policy.Reads() {
		domain, id, _ := cutName(string(name))
		r.expressions = append(r.expressions, cel.Name{Domain: domain, ID: id})
	}
}

// addSelectors adds what CEL selectors read. Those that do not compile are an error when the
// question is compiled.
func (r *reads) addSelectors(programs *cel.Cache, selectors []resourceapi.DeviceSelector) {
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		if program, err := programs.Selector(s.CEL.Expression); err == nil {
			r.add(program.Reads())
		}
	}
}

func (r *reads) addDerived(programs *cel.Cache, attributes []resourceapi.DeviceDerivedAttribute) {
	for _, a := range attributes {
		if program, err := programs.Derived(a.Expression); err == nil {
			r.add(program.Reads())
		}
	}
}

func (r *reads) add(from cel.Reads) {
	r.all = r.all || !from.Exact || from.AnyAttribute
	r.expressions = append(r.expressions, from.Attributes...)
	r.domains = append(r.domains, from.AttributeDomains...)
}

func (r *reads) addConstraints(constraints []resourceapi.DeviceConstraint) {
	for _, c := range constraints {
		for _, name := range []*resourceapi.FullyQualifiedName{c.MatchAttribute, c.DistinctAttribute} {
			if name != nil {
				r.constraints = append(r.constraints, *name)
			}
		}
	}
}

// with returns the lens itself if it covers what is read, else a wider one.
func (l *Lens) with(r *reads) *Lens {
	next := &covered{all: l.all || r.all, expressions: maps.Clone(l.expressions), domains: maps.Clone(l.domains), constraints: maps.Clone(l.constraints)}
	for _, name := range r.expressions {
		next.expressions[name] = true
	}
	for _, domain := range r.domains {
		next.domains[domain] = true
	}
	for _, name := range r.constraints {
		next.constraints[name] = true
	}
	if next.all == l.all && len(next.expressions) == len(l.expressions) && len(next.domains) == len(l.domains) && len(next.constraints) == len(l.constraints) {
		return l
	}
	next.sortedExpressions = slices.SortedFunc(maps.Keys(next.expressions), func(a, b cel.Name) int {
		return slices.Compare([]string{a.Domain, a.ID}, []string{b.Domain, b.ID})
	})
	next.sortedConstraints = slices.Sorted(maps.Keys(next.constraints))
	return newLens(l.gates, next)
}

// blank is the lens that sees no attributes.
func blank(gates pools.Gates) *Lens {
	return newLens(gates, &covered{expressions: make(map[cel.Name]bool), domains: make(map[string]bool), constraints: make(map[resourceapi.FullyQualifiedName]bool)})
}

// spare is how much more than what its cluster needs a lens may know.
const spare = 256

// outgrown reports whether a lens knows much more than what a cluster of that size needs.
func (l *Lens) outgrown(nodes, devices int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.contents) > 2*nodes+spare || len(l.devices)+len(l.values) > 4*devices+spare
}

// number returns the number of a key in a table of the lens.
func (l *Lens) number(table map[string]uint32, key []byte) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := table[string(key)]; known {
		return n
	}
	n := uint32(len(table) + 1)
	table[string(key)] = n
	return n
}

// sight collects what a lens sees of the devices of one node.
type sight struct {
	lens *Lens
	// values are those that constraints compare, in the order in which they first come.
	values []shape.Value
	ids    map[shape.Value]int
}

// device returns the number of devices that look the same.
func (s *sight) device(driver string, slice int32, d *resourceapi.Device) uint32 {
	rest := *d
	rest.Name, rest.Attributes, rest.Taints = "", nil, nil
	text, err := rest.Marshal()
	if err != nil {
		panic("device " + d.Name + " cannot be encoded: " + err.Error()) // it is plain data
	}
	key := binary.AppendUvarint(nil, uint64(slice))
	key = appendText(key, string(text))
	key = appendTaints(key, d.Taints)
	key = s.appendExpressions(key, driver, d)
	for _, name := range s.lens.sortedConstraints {
		key = s.appendCompared(key, driver, d, name)
	}
	return s.lens.number(s.lens.devices, key)
}

// tainted returns the number of a device with more taints.
func (s *sight) tainted(device uint32, taints []resourceapi.DeviceTaint) uint32 {
	key := append([]byte("taint"), 0xff)
	key = binary.AppendUvarint(key, uint64(device))
	return s.lens.number(s.lens.devices, appendTaints(key, taints))
}

func appendTaints(to []byte, taints []resourceapi.DeviceTaint) []byte {
	to = binary.AppendUvarint(to, uint64(len(taints)))
	for i := range taints {
		// When a taint was added matters to nobody who allocates.
		to = appendText(appendText(appendText(to, taints[i].Key), taints[i].Value), string(taints[i].Effect))
	}
	return to
}

// appendExpressions appends the attributes that expressions read, under both names that an
// attribute of the driver's domain may have.
func (s *sight) appendExpressions(to []byte, driver string, d *resourceapi.Device) []byte {
	if s.lens.all {
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			to = appendAttribute(to, name, d)
		}
		return to
	}
	for _, name := range s.lens.sortedExpressions {
		to = appendAttribute(to, resourceapi.QualifiedName(name.String()), d)
		if name.Domain == driver {
			to = appendAttribute(to, resourceapi.QualifiedName(name.ID), d)
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(s.lens.domains)) {
		to = append(to, flag(hasDomain(driver, domain, d)))
	}
	return to
}

func appendAttribute(to []byte, name resourceapi.QualifiedName, d *resourceapi.Device) []byte {
	attribute, found := d.Attributes[name]
	if !found {
		return append(to, 0)
	}
	if shape.Unknown(&attribute) {
		return appendText(append(to, 2), string(name)) // no expression that reads it holds
	}
	text, err := attribute.Marshal()
	if err != nil {
		panic("attribute " + string(name) + " of device " + d.Name + " cannot be encoded: " + err.Error()) // it is plain data
	}
	return appendText(appendText(append(to, 1), string(name)), string(text))
}

func hasDomain(driver, domain string, d *resourceapi.Device) bool {
	for name := range d.Attributes {
		if of, _, qualified := cutName(string(name)); qualified && of == domain || !qualified && driver == domain {
			return true
		}
	}
	return false
}

// appendCompared appends the values that a constraint compares, each as a number of the node.
func (s *sight) appendCompared(to []byte, driver string, d *resourceapi.Device, name resourceapi.FullyQualifiedName) []byte {
	value, found := AttributeOf(driver, d, name)
	if !found {
		return append(to, 0)
	}
	attribute := shape.AttributeOf(&value)
	to = append(to, 1, flag(attribute.HasScalar), flag(attribute.Unknown))
	if attribute.HasScalar {
		to = binary.AppendUvarint(to, uint64(s.id(attribute.Scalar)))
	}
	to = binary.AppendUvarint(to, uint64(len(attribute.Set)))
	for _, v := range attribute.Set {
		to = binary.AppendUvarint(to, uint64(s.id(v)))
	}
	return to
}

// AttributeOf is an attribute of a device, under either name that it may have.
func AttributeOf(driver string, d *resourceapi.Device, name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	value, found := d.Attributes[resourceapi.QualifiedName(name)]
	if domain, id, _ := cutName(string(name)); !found && domain == driver {
		value, found = d.Attributes[resourceapi.QualifiedName(id)]
	}
	return value, found
}

func (s *sight) id(v shape.Value) int {
	id, known := s.ids[v]
	if !known {
		id = len(s.values)
		s.values = append(s.values, v)
		s.ids[v] = id
	}
	return id
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}
