// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// gpu is a device with memory as a capacity and, if drawn is not empty, as a counter.
func gpu(name, memory, drawn string, policy *resourceapi.CapacityRequestPolicy) resourceapi.Device {
	d := resourceapi.Device{
		Name:       name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"name": {StringValue: &name}},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory), RequestPolicy: policy}},
	}
	if policy != nil {
		d.AllowMultipleAllocations = ptr.To(true)
	}
	if drawn != "" {
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: "gpu", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(drawn)}},
		}}
	}
	return d
}

// clusterOf is one node with devices, and the class gpu for all of them.
func clusterOf(devices ...resourceapi.Device) *Cluster {
	pool := resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 2}
	slices := []*resourceapi.ResourceSlice{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "counters"},
			Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: pool, NodeName: ptr.To("n"), SharedCounters: []resourceapi.CounterSet{{
				Name: "gpu", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("80Gi")}},
			}}},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "devices"},
			Spec:       resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: pool, NodeName: ptr.To("n"), Devices: devices},
		},
	}
	features := allocator.AllFeatures()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	return NewCluster(features, pools.Build(features.PoolGates(), slices), nodes, allocator.ClassMap(class))
}

// asking is a claim for devices of the class gpu, with memory if it is not empty.
func asking(count int64, memory string) *resourceapi.ResourceClaim {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	if memory != "" {
		e.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}}
	}
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: e}},
	}}}
}

func validValues(values ...string) *resourceapi.CapacityRequestPolicy {
	p := &resourceapi.CapacityRequestPolicy{}
	for _, v := range values {
		p.ValidValues = append(p.ValidValues, resource.MustParse(v))
	}
	p.Default = &p.ValidValues[0]
	return p
}

// validRange begins at 1Gi, which is the default.
func validRange(most, step string) *resourceapi.CapacityRequestPolicy {
	quantity := func(text string) *resource.Quantity {
		if text == "" {
			return nil
		}
		return ptr.To(resource.MustParse(text))
	}
	return &resourceapi.CapacityRequestPolicy{
		Default: quantity("1Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1Gi"), Max: quantity(most), Step: quantity(step)},
	}
}

var (
	counters   = Mapping{Resource: "gpu-memory", Classes: []string{"gpu"}, Sources: []Source{{Driver: "gpu.example.com", Counter: "memory"}}}
	capacities = Mapping{Resource: "gpu-memory", Classes: []string{"gpu"}, Sources: []Source{{Driver: "gpu.example.com", Capacity: "memory"}}}
)

// TestKueue has the numbers of kueue for the same devices and requests, and beside them what is taken.
func TestKueue(t *testing.T) {
	half := func(name string) resourceapi.Device { return gpu(name, "40Gi", "40Gi", nil) }
	for name, test := range map[string]struct {
		devices     []resourceapi.Device
		claim       *resourceapi.ResourceClaim
		mapping     Mapping
		kueue       string // empty for an error
		least, most string
	}{
		"devices":                            {[]resourceapi.Device{half("a"), half("b")}, asking(2, ""), Mapping{Resource: "gpu-memory", Classes: []string{"gpu"}}, "2", "2", "2"},
		"counters of the largest":            {[]resourceapi.Device{gpu("a", "80Gi", "80Gi", nil), half("b"), half("c")}, asking(1, ""), counters, "80Gi", "40Gi", "80Gi"},
		"counters of two":                    {[]resourceapi.Device{gpu("a", "80Gi", "80Gi", nil), half("b"), half("c")}, asking(2, ""), counters, "160Gi", "80Gi", "80Gi"},
		"whole devices":                      {[]resourceapi.Device{gpu("a", "80Gi", "", nil), gpu("b", "40Gi", "", nil)}, asking(1, ""), capacities, "80Gi", "40Gi", "80Gi"},
		"capacity of a whole device":         {[]resourceapi.Device{gpu("a", "80Gi", "", nil)}, asking(1, "20Gi"), capacities, "20Gi", "80Gi", "80Gi"},
		"a share by default":                 {[]resourceapi.Device{gpu("a", "80Gi", "", validValues("40Gi"))}, asking(1, ""), capacities, "40Gi", "40Gi", "40Gi"},
		"defaults that differ":               {[]resourceapi.Device{gpu("a", "80Gi", "", validValues("10Gi")), gpu("b", "80Gi", "", validValues("40Gi"))}, asking(1, ""), capacities, "40Gi", "10Gi", "40Gi"},
		"a valid value":                      {[]resourceapi.Device{gpu("a", "80Gi", "", validValues("10Gi", "20Gi", "40Gi"))}, asking(1, "20Gi"), capacities, "20Gi", "20Gi", "20Gi"},
		"up to a valid value":                {[]resourceapi.Device{gpu("a", "80Gi", "", validValues("10Gi", "20Gi", "40Gi"))}, asking(1, "15Gi"), capacities, "20Gi", "20Gi", "20Gi"},
		"beyond all valid values":            {[]resourceapi.Device{gpu("a", "80Gi", "", validValues("10Gi", "20Gi"))}, asking(1, "25Gi"), capacities, "", "0", "0"},
		"up to the step":                     {[]resourceapi.Device{gpu("a", "80Gi", "", validRange("", "1Gi"))}, asking(1, "15500Mi"), capacities, "16Gi", "16Gi", "16Gi"},
		"up to the least":                    {[]resourceapi.Device{gpu("a", "80Gi", "", validRange("", "1Gi"))}, asking(1, "500Mi"), capacities, "1Gi", "1Gi", "1Gi"},
		"beyond the most":                    {[]resourceapi.Device{gpu("a", "80Gi", "", validRange("20Gi", "10Gi"))}, asking(1, "15Gi"), capacities, "", "0", "0"},
		"no steps":                           {[]resourceapi.Device{gpu("a", "80Gi", "", validRange("", ""))}, asking(1, "15500Mi"), capacities, "15500Mi", "15500Mi", "15500Mi"},
		"too few devices":                    {[]resourceapi.Device{half("a")}, asking(2, ""), counters, "", "0", "0"},
		"devices without the counter":        {[]resourceapi.Device{gpu("a", "80Gi", "", nil)}, asking(1, ""), counters, "", "0", "0"},
		"two shares, each on another device": {[]resourceapi.Device{gpu("a", "80Gi", "", validValues("10Gi")), gpu("b", "80Gi", "", validValues("40Gi"))}, asking(2, ""), capacities, "80Gi", "50Gi", "50Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterOf(test.devices...)
			list, err := cluster.Kueue(t.Context(), &test.claim.Spec, []Mapping{test.mapping})
			if (err != nil) != (test.kueue == "") {
				t.Errorf("kueue's number is an error: %v", err)
			}
			if got := list["gpu-memory"]; err == nil && got.Cmp(resource.MustParse(test.kueue)) != 0 {
				t.Errorf("kueue counts %s, want %s", got.String(), test.kueue)
			}
			charge, err := cluster.Of(t.Context(), test.claim, []Mapping{test.mapping})
			if err != nil {
				t.Fatal(err)
			}
			if b := charge.Of["gpu-memory"]; b.Least.Cmp(resource.MustParse(test.least)) != 0 || b.Most.Cmp(resource.MustParse(test.most)) != 0 {
				t.Errorf("allocations take %s to %s, want %s to %s", b.Least.String(), b.Most.String(), test.least, test.most)
			}
		})
	}
}

func TestKueueSelectors(t *testing.T) {
	cluster := clusterOf(gpu("large", "80Gi", "80Gi", nil), gpu("small", "10Gi", "10Gi", nil))
	claim := asking(1, "")
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["gpu.example.com"].name == "small"`,
	}}}
	one := counters
	one.Sources = []Source{{Driver: "gpu.example.com", Counter: "memory", Selector: `device.attributes["gpu.example.com"].name == "large"`}}
	list, err := cluster.Kueue(t.Context(), &claim.Spec, []Mapping{counters})
	if got := list["gpu-memory"]; err != nil || got.Cmp(resource.MustParse("10Gi")) != 0 {
		t.Errorf("counts %s, want 10Gi, error %v", got.String(), err)
	}
	if _, err := cluster.Kueue(t.Context(), &claim.Spec, []Mapping{one}); err == nil {
		t.Error("a device matches both selectors")
	}
	charge, err := cluster.Of(t.Context(), asking(1, ""), []Mapping{one})
	if b := charge.Of["gpu-memory"]; err != nil || !b.Least.IsZero() || b.Most.Cmp(resource.MustParse("80Gi")) != 0 {
		t.Errorf("allocations take %s to %s, want 0 to 80Gi, error %v", b.Least.String(), b.Most.String(), err)
	}
}

// Requests with selectors need devices of their own, though devices are counted by number. Sources of the class say of which drivers.
func TestKueueMatches(t *testing.T) {
	byName := func(names ...string) *resourceapi.ResourceClaimSpec {
		claim := asking(1, "")
		claim.Spec.Devices.Requests = nil
		for _, name := range names {
			request := asking(1, "").Spec.Devices.Requests[0]
			request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: `device.attributes["gpu.example.com"].name.startsWith("` + name + `")`,
			}}}
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
		}
		return &claim.Spec
	}
	cluster := clusterOf(gpu("a-0", "80Gi", "80Gi", nil), gpu("a-1", "80Gi", "80Gi", nil))
	two := byName("a")
	two.Devices.Requests[0].Exactly.Count = 2
	another := byName("b")
	another.Devices.Requests[0].Exactly.DeviceClassName = "gone"
	for name, test := range map[string]struct {
		spec    *resourceapi.ResourceClaimSpec
		mapping Mapping
		want    string // of devices, or of the error
	}{
		"a device for each":             {byName("a-0", "a"), ByClass("gpu"), "2"},
		"one device for both":           {byName("a-0", "a-0"), ByClass("gpu"), "0 devices match, 1 are asked for"},
		"the other one was given":       {byName("a", "a-0"), ByClass("gpu"), "0 devices match, 1 are asked for"},
		"two devices":                   {two, ByClass("gpu"), "2"},
		"no device":                     {byName("b"), ByClass("gpu"), "0 devices match, 1 are asked for"},
		"a class that does not exist":   {another, ByClass("gone"), "gone"},
		"without selectors all may fit": {&asking(3, "").Spec, ByClass("gpu"), "3"},
	} {
		list, err := cluster.Kueue(t.Context(), test.spec, []Mapping{test.mapping})
		got := list[test.mapping.Resource]
		if err != nil && !strings.Contains(err.Error(), test.want) || err == nil && got.String() != test.want {
			t.Errorf("%s: counts %s, error %v, want %s", name, got.String(), err, test.want)
		}
	}
}

// If classes have sources, requests with selectors get only devices of their drivers.
func TestKueueMatchesOfDrivers(t *testing.T) {
	var slices []*resourceapi.ResourceSlice
	for _, driver := range []string{"gpu.example.com", "nic.example.com"} {
		slices = append(slices, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1},
			Devices: []resourceapi.Device{gpu("a", "80Gi", "", nil)},
		}})
	}
	features := allocator.AllFeatures()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	cluster := NewCluster(features, pools.Build(features.PoolGates(), slices), nil, allocator.ClassMap(class))
	claim := asking(1, "")
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}}
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, *claim.Spec.Devices.Requests[0].DeepCopy())
	if list, err := cluster.Kueue(t.Context(), &claim.Spec, []Mapping{ByClass("gpu")}); err != nil {
		t.Errorf("counts %v, error %v, want a device of each driver", list, err)
	}
	if list, err := cluster.Kueue(t.Context(), &claim.Spec, []Mapping{capacities}); err == nil || !strings.Contains(err.Error(), "0 devices match") {
		t.Errorf("counts %v, error %v, want no second device of the driver", list, err)
	}
}

func TestErrors(t *testing.T) {
	cluster := clusterOf(gpu("a", "80Gi", "80Gi", nil))
	admin, all, first, other := asking(1, ""), asking(1, ""), asking(1, ""), asking(1, "")
	admin.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	first.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "s", DeviceClassName: "gpu"}}}
	other.Spec.Devices.Requests[0].Exactly.DeviceClassName = "nic"
	for text, claim := range map[string]*resourceapi.ResourceClaim{"": admin, `allocationMode "All"`: all, "firstAvailable": first, `class "nic" has no mapping`: other} {
		list, err := cluster.Kueue(t.Context(), &claim.Spec, []Mapping{counters})
		if text == "" {
			if err != nil || len(list) > 0 {
				t.Errorf("admin access counts %v, error %v", list, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
	both, bad := counters, counters
	both.Sources = []Source{{Driver: "gpu.example.com"}}
	bad.Sources = []Source{{Driver: "gpu.example.com", Counter: "memory", Selector: "device."}}
	for text, mappings := range map[string][]Mapping{"want either": {both}, "selector": {bad}, "there twice": {counters, counters}} {
		if _, err := cluster.Of(t.Context(), asking(1, ""), mappings); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
	if _, err := cluster.Of(t.Context(), nil, nil); err == nil {
		t.Error("no claim is no error")
	}
	if _, err := cluster.Kueue(t.Context(), nil, nil); err == nil || Quota(nil, nil, nil) != nil {
		t.Error("no claim counts something")
	}
}

// A device of an allocated claim may no longer exist. The capacity that its share consumes is still known.
func TestShareOfDeviceThatIsGone(t *testing.T) {
	claim := asking(2, "")
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "gone"},
		{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "gone-too", ShareID: ptr.To(types.UID("s")), ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("7Gi")}},
	}}}
	charge, err := clusterOf(gpu("a", "80Gi", "", nil)).Of(t.Context(), claim, []Mapping{capacities, ByClass("gpu")})
	if err != nil {
		t.Fatal(err)
	}
	memory, devices := charge.Of["gpu-memory"], charge.Of["gpu.deviceclass.resource.k8s.io/devices"]
	if memory.Most.Cmp(resource.MustParse("7Gi")) != 0 || devices.Least.CmpInt64(2) != 0 || len(charge.Gone) != 2 {
		t.Errorf("counts %s and %s devices, %d are gone, want 7Gi, 2 and 2", memory.Most.String(), devices.Least.String(), len(charge.Gone))
	}
}

// Shares of one device draw on its counters once, and consume each their own. So do those that are not allocated yet, at least.
func TestSharesOfOneDevice(t *testing.T) {
	shared := gpu("a", "80Gi", "60Gi", validValues("10Gi"))
	claim := asking(1, "")
	again := claim.Spec.Devices.Requests[0]
	again.Name = "again"
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, again)
	capacity := capacities
	capacity.Resource = "gpu-capacity"
	cluster := clusterOf(shared)
	compare := func(when string) {
		t.Helper()
		charge, err := cluster.Of(t.Context(), claim, []Mapping{counters, capacity})
		if err != nil {
			t.Fatal(err)
		}
		drawn, consumed := charge.Of["gpu-memory"], charge.Of["gpu-capacity"]
		if drawn.Least.Cmp(resource.MustParse("60Gi")) != 0 || consumed.Least.Cmp(resource.MustParse("20Gi")) != 0 || consumed.Most.Cmp(resource.MustParse("20Gi")) != 0 {
			t.Errorf("%s: %s drawn, %s to %s consumed, want 60Gi and 20Gi", when, drawn.Least.String(), consumed.Least.String(), consumed.Most.String())
		}
	}
	compare("before")
	problem, err := cluster.allocator.Compile([]*resourceapi.ResourceClaim{claim}, cluster.classes)
	if err != nil {
		t.Fatal(err)
	}
	found, err := problem.Feasible(t.Context(), pools.NewState(cluster.snapshot), cluster.nodes[0])
	if err != nil || len(found.Results()) != 1 {
		t.Fatal(err, found.Verdict())
	}
	claim.Status.Allocation = &found.Results()[0]
	compare("after")
}

// A pool of which slices are missing counts nothing.
func TestKueueIncompletePool(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 2},
		Devices: []resourceapi.Device{gpu("a", "80Gi", "", nil)},
	}}
	features := allocator.AllFeatures()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	cluster := NewCluster(features, pools.Build(features.PoolGates(), []*resourceapi.ResourceSlice{slice}), nil, allocator.ClassMap(class))
	if list, err := cluster.Kueue(t.Context(), &asking(1, "").Spec, []Mapping{capacities}); err == nil || !strings.Contains(err.Error(), "0 devices match") {
		t.Errorf("counts %v, error %v, want no device that matches", list, err)
	}
}
