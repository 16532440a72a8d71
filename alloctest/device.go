// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

func addDevices(spec *resourceapi.ResourceSliceSpec, b block) error {
	all, err := b.expand()
	if err != nil {
		return err
	}
	for _, one := range all {
		device, err := parseDevice(one)
		if err != nil {
			return err
		}
		spec.Devices = append(spec.Devices, *device)
	}
	return nil
}

// parseDevice reads: name [attribute=value]... clauses
func parseDevice(b block) (*resourceapi.Device, error) {
	w := b.words()
	name, err := unquote(w.next())
	if err != nil {
		return nil, err
	}
	device := &resourceapi.Device{Name: name}
	err = w.pairs(func(key, value string) error {
		if device.Attributes == nil {
			device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
		}
		attribute, err := parseAttribute(value)
		device.Attributes[resourceapi.QualifiedName(key)] = attribute
		return err
	})
	if err == nil {
		err = b.clauses(w, func(clause string, w *words) error { return deviceClause(device, clause, w) })
	}
	return device, within("device "+name, err)
}

func deviceClause(device *resourceapi.Device, clause string, w *words) (err error) {
	switch clause {
	case "capacity":
		err = addCapacity(device, w)
	case "consumes":
		err = addConsumption(device, w)
	case "taint":
		var taint resourceapi.DeviceTaint
		taint, err = parseTaint(w.next())
		device.Taints = append(device.Taints, taint)
	case "on":
		var p place
		p, err = parsePlace(w)
		device.NodeName, device.AllNodes, device.NodeSelector = p.pointers()
		return err
	case "shareable":
		device.AllowMultipleAllocations = new(true)
	case "binds-to-node":
		device.BindsToNode = new(true)
	case "binding-conditions":
		device.BindingConditions, err = commaList[string](w.next())
	case "failure-conditions":
		device.BindingFailureConditions, err = commaList[string](w.next())
	default:
		return fmt.Errorf("unknown clause %q", clause)
	}
	return within(clause, err)
}

// addConsumption reads: counter-set counter=quantity... [groups=a,b]
func addConsumption(device *resourceapi.Device, w *words) error {
	set, err := w.operand("counter set")
	if err != nil {
		return err
	}
	consumption := resourceapi.DeviceCounterConsumption{
		CounterSet: set,
		Counters:   make(map[string]resourceapi.Counter),
	}
	err = w.some(func(key, value string) (err error) {
		if key == "groups" {
			consumption.CompatibilityGroups, err = commaList[string](value)
			return err
		}
		quantity, err := parseQuantity(value)
		if err == nil {
			consumption.Counters[key] = resourceapi.Counter{Value: *quantity}
		}
		return err
	})
	device.ConsumesCounters = append(device.ConsumesCounters, consumption)
	return within(set, err)
}

func writeDevice(device *resourceapi.Device) []string {
	header := quote(device.Name)
	sorted(device.Attributes, func(name resourceapi.QualifiedName, a resourceapi.DeviceAttribute) {
		header += " " + string(name) + "=" + writeAttribute(a)
	})
	clauses := deviceClauses(device)
	if len(header)+len(strings.Join(clauses, " ")) <= 120 {
		return []string{strings.Join(append([]string{header}, clauses...), " ")}
	}
	return append([]string{header}, indented(clauses)...)
}

func deviceClauses(device *resourceapi.Device) []string {
	var clauses []string
	if p := placeOf(device.NodeName, device.AllNodes, nil, device.NodeSelector).String(); p != "" {
		clauses = append(clauses, p[1:])
	}
	sorted(device.Capacity, func(name resourceapi.QualifiedName, c resourceapi.DeviceCapacity) {
		clauses = append(clauses, "capacity "+string(name)+"="+c.Value.String()+writePolicy(c.RequestPolicy))
	})
	for _, consumption := range device.ConsumesCounters {
		clause := "consumes " + quote(consumption.CounterSet) + writeCounters(consumption.Counters)
		if len(consumption.CompatibilityGroups) > 0 {
			clause += " groups=" + quoteAll(consumption.CompatibilityGroups)
		}
		clauses = append(clauses, clause)
	}
	for _, taint := range device.Taints {
		clauses = append(clauses, "taint "+writeTaint(taint))
	}
	if device.AllowMultipleAllocations != nil {
		clauses = append(clauses, "shareable")
	}
	if device.BindsToNode != nil {
		clauses = append(clauses, "binds-to-node")
	}
	return append(clauses, writeConditions(device.BindingConditions, device.BindingFailureConditions)...)
}

func writeConditions(binding, failure []string) []string {
	var clauses []string
	if len(binding) > 0 {
		clauses = append(clauses, "binding-conditions "+quoteAll(binding))
	}
	if len(failure) > 0 {
		clauses = append(clauses, "failure-conditions "+quoteAll(failure))
	}
	return clauses
}
