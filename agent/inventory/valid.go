// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The API server accepts or refuses a ResourceSlice, or the status of a claim, as a whole. The
// functions of this file find what it would refuse, so that one invalid device or value does not
// prevent all others from being published. The rules are those of resource.k8s.io/v1 in Kubernetes
// 1.37. agent/resourceslice/e2e checks them against a real API server.

// maxPolicyValues is the maximum number of valid values in a request policy.
const maxPolicyValues = 10

// checkName returns an error if text is no valid name of a device, a counter set or a counter.
func checkName(text string) error {
	return problem(validate.ShortName(context.Background(), operation.Operation{}, nil, &text, nil))
}

func checkPool(text string) error {
	return problem(validate.ResourcePoolName(context.Background(), operation.Operation{}, nil, &text, nil))
}

// checkQualifiedName checks the name of an attribute or a capacity.
func checkQualifiedName(name resourceapi.QualifiedName) error {
	domain, id, qualified := strings.Cut(string(name), "/")
	text := strings.ToLower(domain) + "/" + id // the API server takes capitals here
	if !qualified {
		text = "driver/" + string(name) // a name without a domain has that of the driver
	}
	return problem(validate.ResourceFullyQualifiedName(context.Background(), operation.Operation{}, nil, &text, nil))
}

// problem returns the first error without its field, or nil.
func problem(problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	if problems[0].Detail != "" {
		return errors.New(problems[0].Detail)
	}
	return errors.New(strings.ToLower(problems[0].Type.String()))
}

// checkAttribute returns an error if an attribute is invalid. Long strings are not truncated: half
// a serial number may be that of another device.
func checkAttribute(name resourceapi.QualifiedName, attribute *resourceapi.DeviceAttribute) error {
	if err := checkQualifiedName(name); err != nil {
		return err
	}
	values := 0
	for _, set := range []bool{
		attribute.IntValue != nil, attribute.BoolValue != nil, attribute.StringValue != nil, attribute.VersionValue != nil,
		len(attribute.IntValues) > 0, len(attribute.BoolValues) > 0, len(attribute.StringValues) > 0, len(attribute.VersionValues) > 0,
	} {
		if set {
			values++
		}
	}
	if values != 1 {
		return fmt.Errorf("it has %d values, and must have one, or one list that is not empty", values)
	}
	texts, versions := attribute.StringValues, attribute.VersionValues
	if attribute.StringValue != nil {
		texts = []string{*attribute.StringValue}
	}
	if attribute.VersionValue != nil {
		versions = []string{*attribute.VersionValue}
	}
	for _, text := range slices.Concat(texts, versions) {
		switch {
		case len(text) > resourceapi.DeviceAttributeMaxValueLength:
			return fmt.Errorf("its text has %d bytes, of at most %d", len(text), resourceapi.DeviceAttributeMaxValueLength)
		case !utf8.ValidString(text):
			return errors.New("its text is not UTF-8")
		}
	}
	for _, version := range versions {
		if _, err := semver.Parse(version); err != nil {
			return fmt.Errorf("%q is not a semantic version: %w", version, err)
		}
	}
	return nil
}

// entries returns how many values an attribute has, for the API's limit per device.
func entries(attribute *resourceapi.DeviceAttribute) int {
	return max(1, len(attribute.IntValues)+len(attribute.BoolValues)+len(attribute.StringValues)+len(attribute.VersionValues))
}

// maxTaints leaves room for that of a source that is lost.
const maxTaints = resourceapi.DeviceTaintsMaxLength - 1

func checkTaint(taint *resourceapi.DeviceTaint) error {
	problems := validation.IsQualifiedName(taint.Key)
	problems = append(problems, validation.IsValidLabelValue(taint.Value)...)
	if len(problems) > 0 {
		return errors.New(problems[0])
	}
	switch taint.Effect {
	case resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute:
		return nil
	}
	return fmt.Errorf("effect %q: must be None, NoSchedule or NoExecute", taint.Effect)
}

// checkCapacity returns an error if a capacity is invalid. shared says whether several users may
// have the device.
func checkCapacity(name resourceapi.QualifiedName, capacity *resourceapi.DeviceCapacity, shared bool) error {
	if err := checkQualifiedName(name); err != nil {
		return err
	}
	policy := capacity.RequestPolicy
	switch {
	case policy == nil:
		return nil
	case !shared:
		return errors.New("a request policy is for devices with shares only")
	}
	if err := checkPolicy(&capacity.Value, policy); err != nil {
		return fmt.Errorf("request policy: %w", err)
	}
	return nil
}

func checkPolicy(most *resource.Quantity, policy *resourceapi.CapacityRequestPolicy) error {
	values, within := policy.ValidValues, policy.ValidRange
	switch {
	case len(values) == 0 && within == nil:
		return nil
	case len(values) > 0 && within != nil:
		return errors.New("it has valid values and a valid range")
	case policy.Default == nil:
		return errors.New("it has no default")
	case within != nil:
		return checkRange(most, policy.Default, within)
	}
	for i, value := range values[1:] {
		if value.Value() <= values[i].Value() || value.Cmp(values[i]) <= 0 {
			return errors.New("its valid values do not ascend by whole numbers")
		}
	}
	switch {
	case len(values) > maxPolicyValues:
		return fmt.Errorf("it has %d valid values, of at most %d", len(values), maxPolicyValues)
	case values[len(values)-1].Cmp(*most) > 0:
		return errors.New("a valid value is more than the capacity")
	case !slices.ContainsFunc(values, func(value resource.Quantity) bool { return value.Cmp(*policy.Default) == 0 }):
		return errors.New("the default is not a valid value")
	}
	return nil
}

// checkRange accepts only whole numbers if there is a step, as API servers without the feature
// DRAFractionalCapacityRange do.
func checkRange(most, standard *resource.Quantity, within *resourceapi.CapacityRequestPolicyRange) error {
	least, step := within.Min, within.Step
	if within.Max != nil {
		if within.Max.Cmp(*most) > 0 {
			return errors.New("the maximum is more than the capacity")
		}
		most = within.Max
	}
	switch {
	case least == nil:
		return errors.New("its range has no minimum")
	case least.Cmp(*standard) > 0 || standard.Cmp(*most) > 0 && within.Max != nil || least.Cmp(*most) > 0:
		return errors.New("minimum, default, maximum and capacity do not ascend")
	case step == nil:
		return nil
	case step.Sign() <= 0:
		return errors.New("the step is not positive")
	}
	next := least.DeepCopy()
	next.Add(*step)
	if next.Cmp(*most) > 0 {
		return errors.New("one step is more than the capacity")
	}
	for _, value := range []*resource.Quantity{least, step, standard, within.Max} {
		if value == nil {
			continue
		}
		whole := resource.NewQuantity(value.Value(), value.Format)
		if value.Sign() < 0 || value.CmpInt64(math.MaxInt64) > 0 || whole.Cmp(*value) != 0 {
			return fmt.Errorf("%s is not a whole number that 63 bits can hold", value)
		}
	}
	for _, value := range []*resource.Quantity{standard, within.Max} {
		if value != nil && (value.Value()-least.Value())%step.Value() != 0 {
			return fmt.Errorf("%s is not reached by steps of %s from %s", value, step, least)
		}
	}
	return nil
}

// checkCounters checks the counters of a counter set, or those that a device consumes.
func checkCounters(counters map[string]resourceapi.Counter) error {
	if len(counters) == 0 || len(counters) > resourceapi.ResourceSliceMaxCountersPerCounterSet {
		return fmt.Errorf("it has %d counters, and must have 1 to %d", len(counters), resourceapi.ResourceSliceMaxCountersPerCounterSet)
	}
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if err := checkName(name); err != nil {
			return fmt.Errorf("counter %q: %w", name, err)
		}
	}
	return nil
}

// checkNetwork checks network data. It returns the valid part, and an error for each invalid field.
func checkNetwork(data *resourceapi.NetworkDeviceData) (*resourceapi.NetworkDeviceData, []error) {
	if data == nil {
		return nil, nil
	}
	var problems []error
	out := &resourceapi.NetworkDeviceData{}
	for _, text := range []struct {
		name     string
		from, to *string
		most     int
	}{
		{"interfaceName", &data.InterfaceName, &out.InterfaceName, resourceapi.NetworkDeviceDataInterfaceNameMaxLength},
		{"hardwareAddress", &data.HardwareAddress, &out.HardwareAddress, resourceapi.NetworkDeviceDataHardwareAddressMaxLength},
	} {
		switch {
		case len(*text.from) > text.most:
			problems = append(problems, fmt.Errorf("networkData: %s: it has %d bytes, of at most %d", text.name, len(*text.from), text.most))
		case !utf8.ValidString(*text.from):
			problems = append(problems, fmt.Errorf("networkData: %s: it is not UTF-8", text.name))
		default:
			*text.to = *text.from
		}
	}
	for _, address := range data.IPs {
		err := problem(validation.IsValidInterfaceAddress(nil, address))
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("networkData: ips: %q: %w", address, err))
		case slices.Contains(out.IPs, address):
			problems = append(problems, fmt.Errorf("networkData: ips: %q: it is there twice", address))
		case len(out.IPs) == resourceapi.NetworkDeviceDataMaxIPs:
			problems = append(problems, fmt.Errorf("networkData: ips: %q: there are more than %d", address, resourceapi.NetworkDeviceDataMaxIPs))
		default:
			out.IPs = append(out.IPs, address)
		}
	}
	return out, problems
}

// ReportedNetwork returns the part of Network that can be reported: see Unpublished.
func (d *Device) ReportedNetwork() *resourceapi.NetworkDeviceData {
	data, _ := checkNetwork(d.Network)
	return data
}

// ReportedDetails returns Data as JSON. It is nil if there is none, or if it cannot be reported:
// see Unpublished.
func (d *Device) ReportedDetails() []byte {
	raw, _ := encodeDetails(d.Data)
	return raw
}

func encodeDetails(data map[string]any) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(data) // keys are sorted, as by the API server
	switch {
	case err != nil:
		return nil, fmt.Errorf("data: %w", err)
	case len(raw) > resourceapi.AllocatedDeviceStatusDataMaxLength:
		return nil, fmt.Errorf("data: it has %d bytes as JSON, of at most %d", len(raw), resourceapi.AllocatedDeviceStatusDataMaxLength)
	}
	return raw, nil
}
