// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
	"github.com/dray-project/dray/pools"
)

// Mapping is what is counted under the name of a resource: that of devices which requests for some classes get.
type Mapping struct {
	Resource corev1.ResourceName
	// Classes are names of DeviceClasses. Devices of requests for other classes are not counted.
	Classes []string
	// Sources are amounts of each device, which are added up. Without sources each device counts 1.
	Sources []Source
}

// Source is an amount of a device. One of Counter and Capacity is set.
type Source struct {
	// Driver is that of the devices. Those of other drivers have none of the amount.
	Driver string
	// Counter is the name of a counter that devices draw on, in any counter set.
	Counter string
	// Capacity is what is consumed of a device that can be shared, and all that another device has.
	Capacity resourceapi.QualifiedName
	// Selector is a CEL expression. Devices for which it does not hold have none of the amount. Empty holds for all.
	Selector string
}

// Bounds are the least and the most that an allocation takes.
type Bounds struct{ Least, Most resource.Quantity }

// Charge is what a claim takes.
type Charge struct {
	// Of has bounds for each resource that was asked about. They are zero if the claim fits nowhere.
	Of map[corev1.ResourceName]Bounds
	// Fits is on how many nodes the claim can be allocated if nothing is in use. It is zero for an allocated claim.
	Fits int
	// Undecided is on how many nodes it was not found out whether it can be, because of the budget or an error. They are part of the
	// bounds.
	Undecided int
	// Gone are devices of an allocated claim that no slice lists. What they have of counters and capacities is not
	// known, and not counted, but for what their allocation consumes.
	Gone []pools.DeviceID
	// Err is the first error about a node.
	Err error
}

// Cluster is the devices, nodes and classes by which claims are counted. It is safe for concurrent use.
type Cluster struct {
	snapshot  *pools.Snapshot
	nodes     []*corev1.Node
	features  allocator.Features
	classes   allocator.Classes
	allocator *allocator.Allocator
	evaluator *eligibility.Evaluator
	programs  *cel.Cache
}

// NewCluster returns a Cluster. The snapshot has to be made with the gates of the features. Nothing is modified, and nothing may be
// modified while the Cluster is in use. Nil classes are none.
func NewCluster(features allocator.Features, snapshot *pools.Snapshot, nodes []*corev1.Node, classes allocator.Classes) *Cluster {
	if classes == nil {
		classes = allocator.ClassMap()
	}
	programs := cel.NewCache(programsKept)
	return &Cluster{
		snapshot: snapshot, nodes: nodes, classes: classes, programs: programs, features: features,
		allocator: allocator.New(allocator.Options{Features: features, Memory: allocator.NewMemory(allocator.MemoryOptions{Programs: programs})}),
		evaluator: eligibility.NewEvaluator(eligibility.Features(features), programs, memo.Bounds{Results: 4096, Selections: 256, Problems: 1}),
	}
}

// programsKept is how many selectors are kept compiled.
const programsKept = 256

// Of is what allocations of a claim take of each resource. For an allocated claim it is what it has: least and most only differ if its pool has several
// devices of the name of one that it has, each for other nodes. For others it is the least and
// the most over all nodes on which the claim can be allocated if nothing is in use. Every allocation lies within, whatever is in use
// when it is made, and whichever alternatives of firstAvailable it takes.
//
// Both ends are taken by some allocation if the claim has one request, no constraints, and devices without counters. Otherwise they may
// be too far apart: each request is looked at by itself, except that devices draw no more on a counter than there is of it.
//
// Devices that are had by admin access count nothing, as others can have them, too. A share of a device counts all that the
// device draws on counters: it is the same for the first claim on it and the others.
//
// It takes time in proportion to the nodes and their devices. The error is the context's, or says what is wrong with the claim or a
// mapping.
func (c *Cluster) Of(ctx context.Context, claim *resourceapi.ResourceClaim, mappings []Mapping) (Charge, error) {
	counted, err := c.compile(mappings)
	if err != nil {
		return Charge{}, err
	}
	if claim == nil {
		return Charge{}, errors.New("the claim is nil")
	}
	if claim.Status.Allocation != nil {
		return c.allocated(ctx, claim, counted)
	}
	problem, err := c.allocator.Compile([]*resourceapi.ResourceClaim{claim}, c.classes)
	if err != nil {
		return Charge{}, err
	}
	compiled, err := claims.Compile(c.evaluator, []*resourceapi.ResourceClaim{claim}, nil, nil, c.classes)
	if err != nil {
		return Charge{}, err
	}
	a := asker{Cluster: c, problem: problem, compiled: compiled, mappings: counted, state: pools.NewState(c.snapshot), bounds: make([]interval, len(counted))}
	for _, node := range c.nodes {
		if err := a.node(ctx, node); err != nil {
			return Charge{}, err
		}
	}
	a.charge.Of = make(map[corev1.ResourceName]Bounds, len(counted))
	for i, m := range counted {
		a.charge.Of[m.Resource] = a.bounds[i].quantities()
	}
	return a.charge, nil
}

// interval is from a least to a most amount.
type interval struct{ least, most amount.Amount }

func (i interval) quantities() Bounds {
	return Bounds{Least: quantity.Of(i.least, resource.DecimalSI), Most: quantity.Of(i.most, resource.DecimalSI)}
}

// mapping is a Mapping with its selectors compiled.
type mapping struct {
	Mapping
	selectors []*cel.Program // by source, nil for all devices
}

// compile checks mappings. The error names one.
func (c *Cluster) compile(mappings []Mapping) ([]mapping, error) {
	list := make([]mapping, len(mappings))
	for i, m := range mappings {
		list[i].Mapping = m
		if slices.ContainsFunc(mappings[:i], func(other Mapping) bool { return other.Resource == m.Resource }) {
			return nil, fmt.Errorf("mapping %d: resource %q is there twice", i, m.Resource)
		}
		for j, source := range m.Sources {
			if (source.Counter == "") == (source.Capacity == "") {
				return nil, fmt.Errorf("mapping %s: source %d: want either a counter or a capacity", m.Resource, j)
			}
			var program *cel.Program
			if source.Selector != "" {
				var err error
				if program, err = c.programs.Selector(source.Selector); err != nil {
					return nil, fmt.Errorf("mapping %s: source %d: selector: %w", m.Resource, j, err)
				}
			}
			list[i].selectors = append(list[i].selectors, program)
		}
	}
	return list, nil
}

// taken is a device with what is consumed of its capacities. They are nil if it is taken whole.
type taken struct {
	driver   string
	device   *resourceapi.Device
	consumed map[resourceapi.QualifiedName]resource.Quantity
}

// parts are what a device adds: each time that it is allocated, and once however many shares of it are.
type parts struct{ each, once amount.Amount }

func (p parts) all() amount.Amount { return p.each.Add(p.once) }

// of is what a device counts. The error is that of a selector.
func (m *mapping) of(ctx context.Context, t taken) (parts, error) {
	var sum parts
	if len(m.Sources) == 0 {
		return parts{each: amount.Nano(nanoPerUnit)}, nil
	}
	for i, source := range m.Sources {
		if source.Driver != t.driver {
			continue
		}
		if program := m.selectors[i]; program != nil {
			matches, err := program.Matches(ctx, cel.NewDevice(t.driver, t.device))
			if err != nil {
				return parts{}, fmt.Errorf("mapping %s: source %d: selector: %w", m.Resource, i, err)
			}
			if !matches {
				continue
			}
		}
		switch {
		case source.Counter != "":
			sum.once = sum.once.Add(drawn(t.device, source.Counter))
		case t.consumed != nil:
			sum.each = sum.each.Add(quantity.Amount(t.consumed[source.Capacity]))
		default:
			sum.each = sum.each.Add(quantity.Amount(t.device.Capacity[source.Capacity].Value))
		}
	}
	return sum, nil
}

// nanoPerUnit is how many of the units of an Amount make one.
const nanoPerUnit = 1e9

// drawn is what a device draws on counters of a name.
func drawn(device *resourceapi.Device, counter string) amount.Amount {
	var sum amount.Amount
	for _, consumption := range device.ConsumesCounters {
		if c, found := consumption.Counters[counter]; found {
			sum = sum.Add(quantity.Amount(c.Value))
		}
	}
	return sum
}

// allocated is what an allocated claim has.
func (c *Cluster) allocated(ctx context.Context, claim *resourceapi.ResourceClaim, mappings []mapping) (Charge, error) {
	charge := Charge{Of: make(map[corev1.ResourceName]Bounds, len(mappings))}
	classes := classesOf(&claim.Spec)
	sums := make([]interval, len(mappings))
	type drawing struct {
		device  pools.DeviceID
		mapping int
	}
	seen := make(map[drawing]bool)
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		devices := c.lookup(id)
		if len(devices) == 0 {
			if devices = append(devices, new(resourceapi.Device)); !slices.Contains(charge.Gone, id) {
				charge.Gone = append(charge.Gone, id)
			}
		}
		for k := range mappings {
			if !slices.Contains(mappings[k].Classes, classes[result.Request]) {
				continue
			}
			one, err := mappings[k].ofResult(ctx, result, devices, seen[drawing{id, k}])
			if err != nil {
				return Charge{}, fmt.Errorf("device %s: %w", id, err)
			}
			seen[drawing{id, k}] = true
			sums[k].least, sums[k].most = sums[k].least.Add(one.least), sums[k].most.Add(one.most)
		}
	}
	for k := range mappings {
		charge.Of[mappings[k].Resource] = sums[k].quantities()
	}
	return charge, nil
}

// ofResult is what a result of an allocation counts, which is of one of some devices. Again says that the claim has another share of the device.
func (m *mapping) ofResult(ctx context.Context, result *resourceapi.DeviceRequestAllocationResult, devices []*resourceapi.Device, again bool) (interval, error) {
	var of interval
	for i, device := range devices {
		t := taken{driver: result.Driver, device: device}
		if result.ShareID != nil {
			if t.consumed = result.ConsumedCapacity; t.consumed == nil {
				t.consumed = map[resourceapi.QualifiedName]resource.Quantity{}
			}
		}
		p, err := m.of(ctx, t)
		if err != nil {
			return interval{}, err
		}
		one := p.all()
		if again {
			one = p.each
		}
		if i == 0 {
			of = interval{one, one}
		}
		if of.least = least(of.least, one); one.Cmp(of.most) > 0 {
			of.most = one
		}
	}
	return of, nil
}

// lookup finds the devices of a name: none if no slice lists it, several if slices for different nodes do.
func (c *Cluster) lookup(id pools.DeviceID) (devices []*resourceapi.Device) {
	pool, found := c.snapshot.Pool(id.PoolID())
	if !found {
		return nil
	}
	for device := range pool.Lookup(id.Device) {
		devices = append(devices, device.Object())
	}
	return devices
}

// classesOf has the class of each request, and of each subrequest by "request/subrequest".
func classesOf(spec *resourceapi.ResourceClaimSpec) map[string]string {
	classes := make(map[string]string)
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			classes[r.Name] = r.Exactly.DeviceClassName
		}
		for j := range r.FirstAvailable {
			classes[r.Name+"/"+r.FirstAvailable[j].Name] = r.FirstAvailable[j].DeviceClassName
		}
	}
	return classes
}

// ByClass counts the devices of a class, under the name that ResourceQuota has for them.
func ByClass(class string) Mapping {
	return Mapping{Resource: corev1.ResourceName(class + corev1.ResourceClaimsPerClass), Classes: []string{class}}
}
