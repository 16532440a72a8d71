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

// Mapping counts devices under the name of a resource: devices of requests for some classes, or amounts of
// them.
type Mapping struct {
	Resource corev1.ResourceName
	// Classes are names of DeviceClasses. Devices of requests for other classes are not counted.
	Classes []string
	// Sources are the amounts of a device that are added up. Without sources each device counts 1.
	Sources []Source
}

// Source is an amount of a device. Exactly one of Counter and Capacity is set.
type Source struct {
	// Driver is the driver of the devices. Devices of other drivers count zero.
	Driver string
	// Counter is the name of a counter that devices draw on, in any counter set.
	Counter string
	// Capacity is the name of a capacity. A shareable device counts what the request consumes of it, any other
	// device all that it has.
	Capacity resourceapi.QualifiedName
	// Selector is a CEL expression. Devices that it does not match count zero. Empty matches all devices.
	Selector string
}

// Bounds are the least and the most that an allocation takes of a resource.
type Bounds struct{ Least, Most resource.Quantity }

// Charge is what a claim takes.
type Charge struct {
	// Of has the bounds for each resource of the mappings. They are zero if the claim fits nowhere.
	Of map[corev1.ResourceName]Bounds
	// Fits is the number of nodes on which the claim can be allocated if nothing is in use. It is zero for an
	// allocated claim.
	Fits int
	// Undecided is the number of nodes without a verdict, because of the budget or an error. The bounds include
	// these nodes.
	Undecided int
	// Gone are devices of an allocated claim that no slice lists. Their counters and capacities are unknown, so
	// only the capacity that their allocation consumes is counted.
	Gone []pools.DeviceID
	// Err is the first error about a node.
	Err error
}

// Cluster has the devices, nodes and classes of a cluster, to count claims by. It is safe for concurrent use.
type Cluster struct {
	snapshot  *pools.Snapshot
	nodes     []*corev1.Node
	features  allocator.Features
	classes   allocator.Classes
	allocator *allocator.Allocator
	evaluator *eligibility.Evaluator
	programs  *cel.Cache
}

// NewCluster returns a Cluster. The snapshot must be built with the gates of the features. Nothing is modified,
// and nothing may be modified while the Cluster is in use. Nil classes mean that there are none.
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

// programsKept bounds the cache of compiled selectors.
const programsKept = 256

// Of returns what allocations of a claim take of each resource. For an allocated claim this is what it has.
// Least and most then differ only if the pool lists several devices of one name, for different nodes.
//
// For other claims, it is the least and the most over all nodes on which the claim can be allocated if nothing
// is in use. Every allocation lies within these bounds, whatever is in use by then, and whichever alternatives
// of firstAvailable it takes.
//
// The bounds are exact if the claim has one request, no constraints, and devices without counters. Otherwise
// they may be too wide: each request is looked at by itself, except that the devices together draw no more on a
// counter than its total.
//
// Devices with admin access count nothing, as other claims can have them, too. A claim with a share of a device is counted all counters that the device draws on.
// That holds for the first claim on the device and the others.
//
// The time is in proportion to the number of nodes and their devices. The error is that of the context, or
// names what is wrong with the claim or a mapping.
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
	a := boundsFinder{Cluster: c, problem: problem, compiled: compiled, mappings: counted, state: pools.NewState(c.snapshot), bounds: make([]interval, len(counted))}
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

// interval holds the least and the most of an amount.
type interval struct{ least, most amount.Amount }

func (i interval) quantities() Bounds {
	return Bounds{Least: quantity.Of(i.least, resource.DecimalSI), Most: quantity.Of(i.most, resource.DecimalSI)}
}

// mapping is a Mapping with its selectors compiled.
type mapping struct {
	Mapping
	selectors []*cel.Program // by source, nil for all devices
}

// compile checks mappings. The error names the mapping and the source.
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

// taken is a device with what is consumed of its capacities. consumed is nil if the device is taken whole.
type taken struct {
	driver   string
	device   *resourceapi.Device
	consumed map[resourceapi.QualifiedName]resource.Quantity
}

// contribution is what a device counts: perAllocation for each allocation of it, perDevice once for all its shares.
type contribution struct{ perAllocation, perDevice amount.Amount }

func (p contribution) all() amount.Amount { return p.perAllocation.Add(p.perDevice) }

// of returns what a device counts. The error is that of a selector.
func (m *mapping) of(ctx context.Context, t taken) (contribution, error) {
	var sum contribution
	if len(m.Sources) == 0 {
		return contribution{perAllocation: amount.Nano(nanoPerUnit)}, nil
	}
	for i, source := range m.Sources {
		if source.Driver != t.driver {
			continue
		}
		if program := m.selectors[i]; program != nil {
			matches, err := program.Matches(ctx, cel.NewDevice(t.driver, t.device))
			if err != nil {
				return contribution{}, fmt.Errorf("mapping %s: source %d: selector: %w", m.Resource, i, err)
			}
			if !matches {
				continue
			}
		}
		switch {
		case source.Counter != "":
			sum.perDevice = sum.perDevice.Add(drawnOn(t.device, source.Counter))
		case t.consumed != nil:
			sum.perAllocation = sum.perAllocation.Add(quantity.Amount(t.consumed[source.Capacity]))
		default:
			sum.perAllocation = sum.perAllocation.Add(quantity.Amount(t.device.Capacity[source.Capacity].Value))
		}
	}
	return sum, nil
}

// nanoPerUnit is how many nano units, the unit of an Amount, make one.
const nanoPerUnit = 1e9

// drawnOn is what a device draws on the counters of one name, in all counter sets.
func drawnOn(device *resourceapi.Device, counter string) amount.Amount {
	var sum amount.Amount
	for _, consumption := range device.ConsumesCounters {
		if c, found := consumption.Counters[counter]; found {
			sum = sum.Add(quantity.Amount(c.Value))
		}
	}
	return sum
}

// allocated counts the devices in the status of an allocated claim.
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

// ofResult counts one result of an allocation. Its device is one of the given devices, which have the same
// name. again is set if the claim has another share of the device, which was counted before.
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
			one = p.perAllocation
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

// lookup returns the devices with a name: none if no slice lists it, several if slices for different nodes do.
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

// classesOf maps each request, and each "request/subrequest", to its class.
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

// ByClass counts the devices of a class, under the name that ResourceQuota uses for it.
func ByClass(class string) Mapping {
	return Mapping{Resource: corev1.ResourceName(class + corev1.ResourceClaimsPerClass), Classes: []string{class}}
}
