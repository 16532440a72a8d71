// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/pools"
)

// ReadSet is the set of properties of devices that any question so far reads. Devices that agree in these are
// equivalent, and so are nodes with equivalent devices. A unique serial number makes no difference until a
// selector reads it. A question that reads more properties makes a wider read set, which distinguishes more
// nodes.
//
// Only attributes are selective. Capacities, taints, counters and all other fields that package keys writes are
// always compared.
type ReadSet struct {
	gates pools.Gates
	cache *stateCache
	*covered

	mu       sync.Mutex
	last     uint32            // last number that was assigned
	devices  map[string]uint32 // numbers of equivalent devices, by key
	values   map[string]uint32 // numbers of equal lists of values, by key
	contents map[string]*content
}

// covered is what a read set covers. It is immutable.
type covered struct {
	// all is set if some expression may read any attribute.
	all bool
	// expressions are the attributes that CEL expressions read. domains are attribute domains for which
	// expressions only ask whether they contain an attribute.
	expressions map[cel.Name]bool
	domains     map[string]bool
	// constraints are the attributes that constraints compare. Only equality of their values matters, not the
	// values.
	constraints map[resourceapi.FullyQualifiedName]bool

	sortedExpressions []expressionName
	sortedDomains     []string
	sortedConstraints []resourceapi.FullyQualifiedName
}

// expressionName is an attribute that expressions read, also in its qualified form.
type expressionName struct {
	cel.Name
	qualified resourceapi.QualifiedName
}

// newReadSet returns a read set with empty caches.
func newReadSet(gates pools.Gates, bounds *stateCache, what *covered) *ReadSet {
	return &ReadSet{gates: gates, cache: bounds, covered: what, devices: make(map[string]uint32), values: make(map[string]uint32), contents: make(map[string]*content)}
}

// questionReads is what one question reads of devices.
type questionReads struct {
	all         bool
	expressions []cel.Name
	domains     []string
	constraints []resourceapi.FullyQualifiedName
}

// addPolicy adds what the device policy and the topology read for any question.
func (r *questionReads) addPolicy(policy allocator.Remembered, topology []resourceapi.FullyQualifiedName) {
	r.constraints = append(r.constraints, topology...)
	if policy == nil {
		return
	}
	for _, name := range policy.Reads() {
		domain, id, _ := cutName(string(name))
		r.expressions = append(r.expressions, cel.Name{Domain: domain, ID: id})
	}
}

// addSelectors adds what CEL selectors read. Selectors that do not compile are ignored here, and reported when
// the question is compiled.
func (r *questionReads) addSelectors(programs *cel.Cache, selectors []resourceapi.DeviceSelector) {
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		if program, err := programs.Selector(s.CEL.Expression); err == nil {
			r.add(program.Reads())
		}
	}
}

func (r *questionReads) addDerived(programs *cel.Cache, attributes []resourceapi.DeviceDerivedAttribute) {
	for _, a := range attributes {
		if program, err := programs.Derived(a.Expression); err == nil {
			r.add(program.Reads())
		}
	}
}

func (r *questionReads) add(from cel.Reads) {
	r.all = r.all || !from.Exact || from.AnyAttribute
	r.expressions = append(r.expressions, from.Attributes...)
	r.domains = append(r.domains, from.AttributeDomains...)
}

func (r *questionReads) addConstraints(constraints []resourceapi.DeviceConstraint) {
	for _, c := range constraints {
		for _, name := range []*resourceapi.FullyQualifiedName{c.MatchAttribute, c.DistinctAttribute} {
			if name != nil {
				r.constraints = append(r.constraints, *name)
			}
		}
	}
}

// with returns a read set that covers the reads, too. It is the read set itself if that covers them already.
func (l *ReadSet) with(r *questionReads) *ReadSet {
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
	for name := range next.expressions {
		next.sortedExpressions = append(next.sortedExpressions, expressionName{name, resourceapi.QualifiedName(name.String())})
	}
	slices.SortFunc(next.sortedExpressions, func(a, b expressionName) int { return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.ID, b.ID)) })
	next.sortedDomains = slices.Sorted(maps.Keys(next.domains))
	next.sortedConstraints = slices.Sorted(maps.Keys(next.constraints))
	return newReadSet(l.gates, l.cache, next)
}

// emptyReadSet returns the read set without attributes.
func emptyReadSet(gates pools.Gates, bounds *stateCache) *ReadSet {
	return newReadSet(gates, bounds, &covered{expressions: make(map[cel.Name]bool), domains: make(map[string]bool), constraints: make(map[resourceapi.FullyQualifiedName]bool)})
}

// spare is how many more entries than its cluster needs a read set may have.
const spare = 256

// outgrown reports whether a read set has many more entries than a cluster of that size needs.
func (l *ReadSet) outgrown(nodes, devices int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.contents) > 2*nodes+spare || len(l.devices)+len(l.values) > 4*devices+spare
}

// number returns the number of a key in a table of the read set. Numbers are not reused.
func (l *ReadSet) number(table map[string]uint32, key []byte) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := table[string(key)]; known {
		return n
	}
	l.last++
	if most := 4 * l.cache.Nodes; len(table) >= most {
		clear(table)
		if most == 0 {
			return l.last
		}
	}
	table[string(key)] = l.last
	return l.last
}

// Selected writes what CEL expressions read of an attribute.
var Selected = keys.Writer[*resourceapi.DeviceAttribute]{
	{Covers: keys.Keyed(reads.Device, "Attributes[]"), Write: func(k *memo.Key, a *resourceapi.DeviceAttribute) { keys.AppendWhole(k, a) }},
}

// deviceKeys builds the keys of the devices of one node, for a read set.
type deviceKeys struct {
	readSet *ReadSet
	key     memo.Key
	// values are the values that constraints compare.
	values keys.Values
	// attribute is a buffer for the attribute that is written.
	attribute resourceapi.DeviceAttribute
}

// device returns the number of the device's equivalence class.
func (s *deviceKeys) device(d *pool.Device) uint32 {
	s.key.Bytes = s.key.Bytes[:0]
	keys.Device.Append(&s.key, d)
	keys.AppendCapacities(&s.key, d.Object.Capacity)
	s.appendSelected(d.Slice.Object.Spec.Driver, d.Object)
	for _, name := range s.readSet.sortedConstraints {
		value, found := d.Shape.Attribute(name)
		keys.Attribute.Append(&s.key, keys.Compared{Values: &s.values, Attribute: value, Found: found})
	}
	return s.readSet.number(s.readSet.devices, s.key.Bytes)
}

// tainted returns the number of a device with more taints.
func (s *deviceKeys) tainted(device uint32, taints []resourceapi.DeviceTaint) uint32 {
	s.key.Bytes = append(s.key.Bytes[:0], 0xff) // no other key begins with this byte
	s.key.Number(int(device))
	keys.AppendTaints(&s.key, taints)
	return s.readSet.number(s.readSet.devices, s.key.Bytes)
}

// appendSelected appends the attributes that expressions read. An attribute of the driver's domain may have a
// qualified name or an unqualified one.
func (s *deviceKeys) appendSelected(driver string, d *resourceapi.Device) {
	if s.readSet.all {
		s.key.Number(len(d.Attributes))
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			s.key.Text(string(name))
			s.appendAttribute(name, d)
		}
		return
	}
	for _, name := range s.readSet.sortedExpressions {
		s.appendAttribute(name.qualified, d)
		if name.Domain == driver {
			s.appendAttribute(resourceapi.QualifiedName(name.ID), d)
		}
	}
	for _, domain := range s.readSet.sortedDomains {
		s.key.Flags(hasDomain(driver, domain, d))
	}
}

func (s *deviceKeys) appendAttribute(name resourceapi.QualifiedName, d *resourceapi.Device) {
	var found bool
	s.attribute, found = d.Attributes[name]
	unknown := found && shape.Unknown(&s.attribute)
	if s.key.Flags(found, unknown); found && !unknown { // an expression that reads an unknown value is false
		Selected.Append(&s.key, &s.attribute)
	}
}

func hasDomain(driver, domain string, d *resourceapi.Device) bool {
	for name := range d.Attributes {
		if of, _, qualified := cutName(string(name)); qualified && of == domain || !qualified && driver == domain {
			return true
		}
	}
	return false
}
