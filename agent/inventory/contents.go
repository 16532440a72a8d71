// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/agent/resourceslice"
)

// Unpublished returns an error for each pool, device, counter set or value of a driver that is not
// published, because the API server would refuse it. It includes values that are left out of
// claims' statuses.
func (in *Inventory) Unpublished(driver string) []error { return in.contents(driver, nil).problems }

// contents returns what can be published of a driver.
func (in *Inventory) contents(driver string, inUse func(ID) bool) *contents {
	c := &contents{
		pools: make(map[string]resourceslice.Slice), poolErrors: make(map[string]error),
		sets: make(map[counterSetID]resourceapi.CounterSet), devices: make(map[ID]bool),
	}
	for i := range in.CounterSets {
		if set := &in.CounterSets[i]; set.Driver == driver {
			if err := c.addCounterSet(set); err != nil {
				c.problems = append(c.problems, fmt.Errorf("counter set %s/%s/%s: not published: %w", driver, set.Pool, set.Name, err))
			}
		}
	}
	for i := range in.Devices {
		device := &in.Devices[i]
		if device.Driver != driver {
			continue
		}
		if err := c.addDevice(device, inUse != nil && inUse(device.ID)); err != nil {
			c.problems = append(c.problems, fmt.Errorf("device %s: not published: %w", device.ID, err))
		}
	}
	return c
}

// contents collects devices and counter sets.
type contents struct {
	pools    map[string]resourceslice.Slice
	problems []error // why devices or values are left out

	poolErrors map[string]error // by name of the pool
	sets       map[counterSetID]resourceapi.CounterSet
	devices    map[ID]bool
}

// checkPool checks a pool's name, and remembers the result.
func (c *contents) checkPool(name string) error {
	err, known := c.poolErrors[name]
	if !known {
		if err = checkPool(name); err != nil {
			err = fmt.Errorf("pool: %w", err)
		}
		c.poolErrors[name] = err
	}
	return err
}

func (c *contents) addCounterSet(set *CounterSet) error {
	id := counterSetID{set.Driver, set.Pool, set.Name}
	if err := errors.Join(c.checkPool(set.Pool), checkName(set.Name), checkCounters(set.Counters)); err != nil {
		return err
	}
	if _, twice := c.sets[id]; twice {
		return errors.New("another counter set of the pool has this name")
	}
	c.sets[id] = set.CounterSet
	content := c.pools[set.Pool]
	content.SharedCounters = append(content.SharedCounters, set.CounterSet)
	c.pools[set.Pool] = content
	return nil
}

func (c *contents) addDevice(d *Device, inUse bool) error {
	if err := errors.Join(c.checkPool(d.Pool), checkName(d.ID.Device)); err != nil {
		return err
	}
	if c.devices[d.ID] {
		return errors.New("another device of the pool has this name")
	}
	if err := c.checkConsumption(d); err != nil {
		return err
	}
	published := d.published(inUse)
	if len(published.Capacity) > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		return fmt.Errorf("it has %d capacities, of at most %d", len(published.Capacity), resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	for name, capacity := range published.Capacity {
		if err := checkCapacity(name, &capacity, d.Shares > 1); err != nil {
			// Without this capacity, users could get more of the device than it has.
			return fmt.Errorf("capacity %q: %w", name, err)
		}
	}
	if len(published.Taints) > maxTaints {
		return fmt.Errorf("it has %d taints, of at most %d", len(published.Taints), maxTaints)
	}
	for i := range published.Taints {
		// Without this taint, pods could get a device that is not for them.
		if err := checkTaint(&published.Taints[i]); err != nil {
			return fmt.Errorf("taint %q: %w", published.Taints[i].Key, err)
		}
	}
	c.devices[d.ID] = true
	c.leaveOutAttributes(d, &published)
	_, problems := checkNetwork(d.Network)
	if _, err := encodeDetails(d.Data); err != nil {
		problems = append(problems, err)
	}
	for _, err := range problems {
		c.problems = append(c.problems, fmt.Errorf("device %s: not reported: %w", d.ID, err))
	}
	content := c.pools[d.Pool]
	content.Devices = append(content.Devices, published)
	c.pools[d.Pool] = content
	return nil
}

// checkConsumption refuses a device that consumes counters which its pool lacks. Without them, it
// could be allocated although its hardware is in use.
func (c *contents) checkConsumption(d *Device) error {
	if len(d.Consumes) > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice {
		return fmt.Errorf("it consumes counters of %d sets, of at most %d", len(d.Consumes), resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice)
	}
	for i, consumption := range d.Consumes {
		set, known := c.sets[counterSetID{d.Driver, d.Pool, consumption.CounterSet}]
		again := slices.ContainsFunc(d.Consumes[:i], func(other resourceapi.DeviceCounterConsumption) bool {
			return other.CounterSet == consumption.CounterSet
		})
		switch {
		case !known:
			return fmt.Errorf("counter set %q: not in the pool", consumption.CounterSet)
		case again:
			return fmt.Errorf("counter set %q: it is consumed twice", consumption.CounterSet)
		}
		if err := checkCounters(consumption.Counters); err != nil {
			return fmt.Errorf("counter set %q: %w", consumption.CounterSet, err)
		}
		for name := range consumption.Counters {
			if _, known := set.Counters[name]; !known {
				return fmt.Errorf("counter set %q: it has no counter %q", consumption.CounterSet, name)
			}
		}
		if err := checkGroups(consumption.CompatibilityGroups); err != nil {
			return fmt.Errorf("counter set %q: %w", consumption.CounterSet, err)
		}
	}
	return nil
}

func checkGroups(groups []string) error {
	if len(groups) > resourceapi.DeviceCompatibilityGroupsMaxSize {
		return fmt.Errorf("it has %d compatibility groups, of at most %d", len(groups), resourceapi.DeviceCompatibilityGroupsMaxSize)
	}
	for i, group := range groups {
		if err := checkName(group); err != nil {
			return fmt.Errorf("compatibility group %q: %w", group, err)
		}
		if slices.Contains(groups[:i], group) {
			return fmt.Errorf("compatibility group %q: it is there twice", group)
		}
	}
	return nil
}

// leaveOutAttributes removes attributes that the API server would refuse. If there are too many, it
// removes the last ones by name, but keeps attributes that Kubernetes defines.
func (c *contents) leaveOutAttributes(d *Device, published *resourceapi.Device) {
	room := resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - len(published.Capacity)
	values := resourceapi.ResourceSliceMaxAttributeValuesPerDevice
	own := slices.Sorted(maps.Keys(published.Attributes))
	standard := d.standardAttributes()
	for name := range standard {
		own = slices.DeleteFunc(own, func(other resourceapi.QualifiedName) bool { return other == name })
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(standard)), own) {
		attribute := published.Attributes[name]
		err := checkAttribute(name, &attribute)
		switch {
		case err != nil:
		case room == 0:
			err = fmt.Errorf("the device has more than %d attributes and capacities", resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
		case values < entries(&attribute):
			err = fmt.Errorf("the attributes of the device have more than %d values", resourceapi.ResourceSliceMaxAttributeValuesPerDevice)
		default:
			room, values = room-1, values-entries(&attribute)
			continue
		}
		delete(published.Attributes, name)
		c.problems = append(c.problems, fmt.Errorf("device %s: attribute %q: not published: %w", d.ID, name, err))
	}
}
