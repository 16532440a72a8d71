// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/dray-project/dray/allocator"
)

// gate connects a feature gate of kube-scheduler to a switch. Default and maturity are those of
// Kubernetes 1.37.
type gate struct {
	name     featuregate.Feature
	on       bool
	maturity maturity
	feature  func(*switches) *bool
}

// switches has the features that gates control.
type switches struct {
	allocator.Features
	taintRules, deviceStatus, extendedResources, groupClaims bool
	// noEffect is for gates that do not affect allocation.
	noEffect bool
}

// maturity is a stage of the featuregate package, which does not export its type.
type maturity int

const (
	alpha maturity = iota
	beta
	ga
)

var gates = []gate{
	{"DRAAdminAccess", true, ga, func(s *switches) *bool { return &s.AdminAccess }},
	{"DRAConsumableCapacity", true, beta, func(s *switches) *bool { return &s.ConsumableCapacity }},
	{"DRADerivedAttributes", false, alpha, func(s *switches) *bool { return &s.DerivedAttributes }},
	{"DRADeviceBindingConditions", true, beta, func(s *switches) *bool { return &s.DeviceBindingAndStatus }},
	{"DRADeviceCompatibilityGroups", false, alpha, func(s *switches) *bool { return &s.CompatibilityGroups }},
	{"DRADeviceTaintRules", true, ga, func(s *switches) *bool { return &s.taintRules }},
	{"DRADeviceTaints", true, ga, func(s *switches) *bool { return &s.DeviceTaints }},
	{"DRAExtendedResource", true, ga, func(s *switches) *bool { return &s.extendedResources }},
	{"DRAFractionalCapacityRange", false, beta, func(s *switches) *bool { return &s.FractionalCapacityRange }},
	{"DRAListTypeAttributes", false, alpha, func(s *switches) *bool { return &s.ListTypeAttributes }},
	{"DRANodeAllocatableResources", false, alpha, nil},
	{"DRAOptionalNodeOperations", false, alpha, func(s *switches) *bool { return &s.OptionalNodeOperations }},
	{"DRAPartitionableDevices", true, beta, func(s *switches) *bool { return &s.PartitionableDevices }},
	{"DRAPartitionableDevicesType", false, alpha, func(s *switches) *bool { return &s.noEffect }},
	{"DRAPrioritizedList", true, ga, func(s *switches) *bool { return &s.PrioritizedList }},
	{"DRAResourceClaimDeviceStatus", true, ga, func(s *switches) *bool { return &s.deviceStatus }},
	{"DRAResourceClaimGranularStatusAuthorization", true, beta, func(s *switches) *bool { return &s.noEffect }},
	{"DRAResourcePoolStatus", false, alpha, func(s *switches) *bool { return &s.noEffect }},
	{"DRASchedulerFilterTimeout", true, beta, func(s *switches) *bool { return &s.noEffect }},
	{"DRAWorkloadResourceClaims", false, beta, func(s *switches) *bool { return &s.groupClaims }},
}

// gatesFlag is the value of --feature-gates.
type gatesFlag struct {
	gates featuregate.MutableFeatureGate
	all   bool // --all-features
	set   map[featuregate.Feature]bool
}

func newGatesFlag() *gatesFlag {
	f := &gatesFlag{gates: featuregate.NewFeatureGate(), set: make(map[featuregate.Feature]bool)}
	specs := make(map[featuregate.Feature]featuregate.FeatureSpec, len(gates))
	for _, g := range gates {
		spec := featuregate.FeatureSpec{Default: g.on, PreRelease: featuregate.Beta}
		switch g.maturity {
		case alpha:
			spec.PreRelease = featuregate.Alpha
		case ga:
			spec.PreRelease = featuregate.GA
		}
		specs[g.name] = spec
	}
	if err := f.gates.Add(specs); err != nil {
		panic("feature gates: " + err.Error()) // a name is in the table twice
	}
	return f
}

func (f *gatesFlag) addTo(flags *pflag.FlagSet) {
	lines := make([]string, len(gates))
	for i, g := range gates {
		lines[i] = fmt.Sprintf("%s=%t", g.name, g.on)
	}
	flags.Var(f, "feature-gates", fmt.Sprintf(
		"feature gates of kube-scheduler as in the cluster; the defaults are those of Kubernetes 1.37:\n%s", strings.Join(lines, "\n")))
	flags.BoolVar(&f.all, "all-features", false, "switch on all feature gates that are not set otherwise")
}

// Set implements pflag.Value.
func (f *gatesFlag) Set(value string) error {
	for assignment := range strings.SplitSeq(value, ",") {
		name, _, _ := strings.Cut(assignment, "=")
		f.set[featuregate.Feature(strings.TrimSpace(name))] = true
	}
	if err := f.gates.Set(value); err != nil {
		text, _, _ := strings.Cut(err.Error(), ", err:") // the reason of strconv
		return errors.New(text)
	}
	return nil
}

// String implements pflag.Value. It is empty, since the help lists the defaults.
func (f *gatesFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *gatesFlag) Type() string { return "name=true|false,..." }

// switches returns the enabled features. With --all-features, features are enabled whose gates are
// off by default, unless the user disables them explicitly.
func (f *gatesFlag) switches() (switches, error) {
	var s switches
	for _, g := range gates {
		on := f.gates.Enabled(g.name)
		if f.all && !f.set[g.name] {
			on = true
		}
		if g.feature != nil {
			*g.feature(&s) = on
		} else if f.gates.Enabled(g.name) {
			return s, fmt.Errorf("--feature-gates: %s is not supported: resources of nodes that devices provide are not looked at", g.name)
		}
	}
	// Without a status, drivers cannot report binding conditions.
	s.DeviceBindingAndStatus = s.DeviceBindingAndStatus && s.deviceStatus
	s.FractionalCapacityRange = s.FractionalCapacityRange && s.ConsumableCapacity
	s.CompatibilityGroups = s.CompatibilityGroups && s.PartitionableDevices
	return s, nil
}
