// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// Kueue is what kueue 0.20 counts for a claim that is made from a template. The mappings are as in its
// configuration (deviceClassMappings). A mapping without sources counts devices. Each source counts the number
// of devices times the largest amount of any device that matches the request, on any node. Incomplete pools are
// left out; devices in use or with taints are not.
//
// The result differs from what an allocation takes (see Cluster.Of). Smaller matching devices count as the
// largest. Of a device that is not shareable, a capacity counts with the requested amount, though the claim
// takes all of it. Of a device that draws on several counter sets, only the largest amount counts.
//
// Errors are what kueue refuses: firstAvailable and allocationMode All, a class without a mapping, and fewer
// matching devices than requested. Requests with selectors need different devices, of any pool. kueue chooses
// them in the order in which it lists devices, without backtracking; here that is the order of drivers, pools
// and slices by name. Requests without selectors need matching devices only if there are sources.
//
// Requests with admin access count nothing; kueue 0.19 refuses them. If a class has several mappings, the first
// gives the name, and all give sources.
func (c *Cluster) Kueue(ctx context.Context, spec *resourceapi.ResourceClaimSpec, mappings []Mapping) (corev1.ResourceList, error) {
	counted, err := c.compile(mappings)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, errors.New("there is no spec of a claim")
	}
	if err := c.kueueMatches(ctx, spec, counted); err != nil {
		return nil, err
	}
	list := corev1.ResourceList{}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if err := c.kueueRequest(ctx, r, counted, list); err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Name, err)
		}
	}
	return list, nil
}

// kueueMatches returns an error for a request with selectors that too few devices match, whatever the mappings
// count.
func (c *Cluster) kueueMatches(ctx context.Context, spec *resourceapi.ResourceClaimSpec, mappings []mapping) error {
	var list []pools.Pool
	given := make(map[int]bool) // by position in all pools
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if !hasSelectors(r) {
			continue
		}
		if list == nil {
			list = c.kueuePools(spec, mappings)
		}
		if err := c.kueueGive(ctx, r.Exactly, list, given); err != nil {
			return fmt.Errorf("request %s: %w", r.Name, err)
		}
	}
	return nil
}

// hasSelectors reports whether kueue checks that devices match a request.
func hasSelectors(r *resourceapi.DeviceRequest) bool {
	return r.Exactly != nil && slices.ContainsFunc(r.Exactly.Selectors, func(s resourceapi.DeviceSelector) bool { return s.CEL != nil })
}

// kueuePools are the pools in which kueue looks for devices. If all classes have sources, they are those of the
// sources' drivers, in the order of the requests. Otherwise they are all pools.
func (c *Cluster) kueuePools(spec *resourceapi.ResourceClaimSpec, mappings []mapping) []pools.Pool {
	var drivers []string
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if !hasSelectors(r) {
			continue
		}
		sources := sourcesOf(r.Exactly.DeviceClassName, mappings)
		if len(sources) == 0 {
			return slices.Collect(c.snapshot.Pools())
		}
		drivers = append(drivers, sources...)
	}
	list := []pools.Pool{}
	for i, driver := range drivers {
		if slices.Contains(drivers[:i], driver) {
			continue
		}
		for pool := range c.snapshot.Pools() {
			if pool.ID().Driver == driver {
				list = append(list, pool)
			}
		}
	}
	return list
}

// sourcesOf returns the drivers of the sources of a class.
func sourcesOf(class string, mappings []mapping) (drivers []string) {
	for k := range mappings {
		if !slices.Contains(mappings[k].Classes, class) {
			continue
		}
		for _, source := range mappings[k].Sources {
			drivers = append(drivers, source.Driver)
		}
	}
	return drivers
}

// kueueGive gives a request the first matching devices of some pools that no other request has.
func (c *Cluster) kueueGive(ctx context.Context, e *resourceapi.ExactDeviceRequest, list []pools.Pool, given map[int]bool) error {
	class, err := c.classes.Get(e.DeviceClassName)
	if err != nil {
		return err
	}
	selectors, err := c.selectorsOf(class.Spec.Selectors, e.Selectors)
	if err != nil {
		return err
	}
	found, at := int64(0), -1
	for _, pool := range list {
		for device := range pool.Devices() {
			if at++; given[at] {
				continue
			}
			matches, err := matchAll(ctx, selectors, pool, device)
			if err != nil {
				return err
			}
			if !matches {
				continue
			}
			given[at] = true
			if found++; found >= e.Count {
				return nil
			}
		}
	}
	if found < e.Count {
		return fmt.Errorf("%d devices match, %d are asked for", found, e.Count)
	}
	return nil
}

// kueueRequest adds what a request counts to the list.
func (c *Cluster) kueueRequest(ctx context.Context, r *resourceapi.DeviceRequest, mappings []mapping, list corev1.ResourceList) error {
	e := r.Exactly
	switch {
	case len(r.FirstAvailable) > 0:
		return errors.New("firstAvailable is not supported")
	case e == nil:
		return errors.New("exactly is not set")
	case ptr.Deref(e.AdminAccess, false):
		return nil
	case e.AllocationMode != resourceapi.DeviceAllocationModeExactCount:
		return fmt.Errorf("allocationMode %q is not supported", e.AllocationMode)
	}
	var name corev1.ResourceName
	sources := false
	for k := range mappings {
		if !slices.Contains(mappings[k].Classes, e.DeviceClassName) {
			continue
		}
		if name == "" {
			name = mappings[k].Resource
		}
		for j := range mappings[k].Sources {
			sources = true
			most, err := c.largest(ctx, e, &mappings[k], j)
			if err != nil {
				return fmt.Errorf("mapping %s: source %d: %w", mappings[k].Resource, j, err)
			}
			to := mappings[k].Resource
			if mappings[k].Sources[j].Capacity != "" {
				to = name // kueue uses the name of the first mapping here
			}
			addTo(list, to, times(most, max(1, e.Count)))
		}
	}
	switch {
	case name == "":
		return fmt.Errorf("class %q has no mapping", e.DeviceClassName)
	case !sources:
		addTo(list, name, e.Count)
	}
	return nil
}

// largest is the largest amount of a source among the devices that match a request.
func (c *Cluster) largest(ctx context.Context, e *resourceapi.ExactDeviceRequest, m *mapping, source int) (int64, error) {
	class, err := c.classes.Get(e.DeviceClassName)
	if err != nil {
		return 0, err
	}
	selectors, err := c.selectorsOf(class.Spec.Selectors, e.Selectors)
	if err != nil {
		return 0, err
	}
	if program := m.selectors[source]; program != nil {
		selectors = append([]*cel.Program{program}, selectors...)
	}
	s := &m.Sources[source]
	most, matching, having, valid := int64(0), int64(0), false, false
	for pool := range c.snapshot.Pools() {
		if pool.ID().Driver != s.Driver || pool.Incomplete() != "" {
			continue
		}
		for device := range pool.Devices() {
			matches, err := matchAll(ctx, selectors, pool, device)
			if err != nil {
				return 0, err
			}
			if !matches {
				continue
			}
			matching++
			for amount, ok := range s.amounts(e, device.Object()) {
				having = true
				if ok {
					most, valid = max(most, amount), true
				}
			}
		}
	}
	switch {
	case matching < e.Count:
		return 0, fmt.Errorf("%d devices match, %d are asked for", matching, e.Count)
	case !having:
		return 0, errors.New("no device that matches has it")
	case !valid:
		return 0, errors.New("no device that matches has a request policy by which it can give as much")
	}
	return most, nil
}

func (c *Cluster) selectorsOf(lists ...[]resourceapi.DeviceSelector) ([]*cel.Program, error) {
	var programs []*cel.Program
	for _, selector := range slices.Concat(lists...) {
		if selector.CEL == nil {
			continue
		}
		program, err := c.programs.Selector(selector.CEL.Expression)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	return programs, nil
}

// matchAll reports whether all selectors hold for a device.
func matchAll(ctx context.Context, selectors []*cel.Program, pool pools.Pool, device pools.Device) (bool, error) {
	of := cel.NewDevice(pool.ID().Driver, device.Object())
	for _, program := range selectors {
		if matches, err := program.Matches(ctx, of); err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}

// amounts yields what a device has of a source, in whole units, and whether its request policy permits that
// amount.
func (s *Source) amounts(e *resourceapi.ExactDeviceRequest, device *resourceapi.Device) iter.Seq2[int64, bool] {
	return func(yield func(int64, bool) bool) {
		for _, consumption := range device.ConsumesCounters {
			if c, found := consumption.Counters[s.Counter]; found && !yield(wholeUnits(c.Value), true) {
				return
			}
		}
		capacity, found := device.Capacity[s.Capacity]
		if !found {
			return
		}
		policy := capacity.RequestPolicy
		base := capacity.Value
		if policy != nil && policy.Default != nil {
			base = *policy.Default
		}
		if e.Capacity != nil {
			if asked, found := e.Capacity.Requests[s.Capacity]; found {
				base = asked
			}
		}
		yield(rounded(base, policy))
	}
}

// rounded rounds a requested amount up as the request policy says, in whole units as kueue does. It is false if
// the policy does not permit the amount.
func rounded(base resource.Quantity, policy *resourceapi.CapacityRequestPolicy) (int64, bool) {
	value := wholeUnits(base)
	switch {
	case policy == nil:
		return value, true
	case len(policy.ValidValues) > 0:
		i := slices.IndexFunc(policy.ValidValues, func(valid resource.Quantity) bool { return valid.Cmp(base) >= 0 })
		if i < 0 {
			return 0, false
		}
		return wholeUnits(policy.ValidValues[i]), true
	case policy.ValidRange == nil:
		return value, true
	}
	r := policy.ValidRange
	if r.Min != nil {
		low := wholeUnits(*r.Min)
		value = max(value, low)
		if r.Step != nil && wholeUnits(*r.Step) > 0 {
			step := wholeUnits(*r.Step)
			if over := uint64(value) - uint64(low); over%uint64(step) != 0 { // value >= low; the difference may exceed an int64
				value = plus(low, times(int64(min(over/uint64(step), math.MaxInt64-1))+1, step))
			}
		}
	}
	return value, r.Max == nil || value <= wholeUnits(*r.Max)
}

// wholeUnits rounds up to whole units, and clamps to an int64.
func wholeUnits(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64) > 0:
		return math.MaxInt64
	case q.CmpInt64(math.MinInt64) < 0:
		return math.MinInt64
	}
	return q.Value()
}

// times multiplies non-negative numbers, and saturates.
func times(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// addTo adds to a resource of a list, and saturates.
func addTo(list corev1.ResourceList, name corev1.ResourceName, n int64) {
	before := list[name]
	list[name] = *resource.NewQuantity(plus(wholeUnits(before), n), resource.DecimalSI)
}

// plus adds, and saturates.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
