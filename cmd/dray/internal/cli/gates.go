package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/dray-project/dray/allocator"
)

// gate ties the feature gate of Kubernetes to the feature of the allocator.
type gate struct {
	name    featuregate.Feature
	feature func(*allocator.Features) *bool
}

var gates = []gate{
	{"DRAAdminAccess", func(f *allocator.Features) *bool { return &f.AdminAccess }},
	{"DRAConsumableCapacity", func(f *allocator.Features) *bool { return &f.ConsumableCapacity }},
	{"DRADerivedAttributes", func(f *allocator.Features) *bool { return &f.DerivedAttributes }},
	{"DRADeviceBindingConditions", func(f *allocator.Features) *bool { return &f.DeviceBindingAndStatus }},
	{"DRADeviceCompatibilityGroups", func(f *allocator.Features) *bool { return &f.CompatibilityGroups }},
	{"DRADeviceTaints", func(f *allocator.Features) *bool { return &f.DeviceTaints }},
	{"DRAFractionalCapacityRange", func(f *allocator.Features) *bool { return &f.FractionalCapacityRange }},
	{"DRAListTypeAttributes", func(f *allocator.Features) *bool { return &f.ListTypeAttributes }},
	{"DRAOptionalNodeOperations", func(f *allocator.Features) *bool { return &f.OptionalNodeOperations }},
	{"DRAPartitionableDevices", func(f *allocator.Features) *bool { return &f.PartitionableDevices }},
	{"DRAPrioritizedList", func(f *allocator.Features) *bool { return &f.PrioritizedList }},
}

// gatesFlag is the value of --feature-gates.
type gatesFlag struct {
	gates featuregate.MutableFeatureGate
}

func newGatesFlag() *gatesFlag {
	f := &gatesFlag{featuregate.NewFeatureGate()}
	specs := make(map[featuregate.Feature]featuregate.FeatureSpec, len(gates))
	for _, g := range gates {
		specs[g.name] = featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Beta}
	}
	if err := f.gates.Add(specs); err != nil {
		panic("feature gates: " + err.Error()) // names repeat: a mistake in the table above
	}
	return f
}

func (f *gatesFlag) addTo(flags *pflag.FlagSet) {
	names := make([]string, len(gates))
	for i, g := range gates {
		names[i] = string(g.name)
	}
	flags.Var(f, "feature-gates", fmt.Sprintf(
		"what the cluster has switched off, as in DRAPrioritizedList=false; all are on by default:\n%s", strings.Join(names, "\n")))
}

// Set implements pflag.Value.
func (f *gatesFlag) Set(value string) error { return f.gates.Set(value) }

// String implements pflag.Value. Nothing is off by default.
func (f *gatesFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *gatesFlag) Type() string { return "name=true|false,..." }

func (f *gatesFlag) features() allocator.Features {
	var features allocator.Features
	for _, g := range gates {
		*g.feature(&features) = f.gates.Enabled(g.name)
	}
	return features
}
