// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

type (
	attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	ofCapacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
)

// having makes a device with attributes.
func having(attributes attributes) Device {
	return gpu("a", func(d *Device) { d.Attributes = attributes })
}

// holding makes a device with a capacity of 10.
func holding(shares int, policy *resourceapi.CapacityRequestPolicy) Device {
	return gpu("a", shared(shares), func(d *Device) {
		d.Capacity = ofCapacity{"memory": {Value: resource.MustParse("10"), RequestPolicy: policy}}
	})
}

func quantity(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

func many(n int) attributes {
	out := make(attributes)
	for i := range n {
		out[resourceapi.QualifiedName(fmt.Sprintf("a%02d", i))] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
	}
	return out
}

// unpublished is a device beside the device "good", and the counter sets of their pool.
type unpublished struct {
	device Device
	sets   []CounterSet
	want   string // what is published of the device: its name and attributes
	told   string // part of the only problem; none if empty
}

// bare is what is published of the device without any attribute.
const bare = "a"

// unpublishedTests have what the API server refuses, and what it only just takes.
var unpublishedTests = map[string]unpublished{
	"name in capitals":     {gpu("GPU 0"), nil, "", `device gpu.example.com/node-1/GPU 0: not published: a lowercase RFC 1123 label`},
	"no name":              {gpu(""), nil, "", "not published"},
	"name is too long":     {gpu(strings.Repeat("a", 64)), nil, "", "not published"},
	"name is there twice":  {gpu("good"), nil, "", "another device of the pool has this name"},
	"pool":                 {gpu("a", func(d *Device) { d.Pool = "Node 1" }), nil, "", "not published: pool: segment 0: "},
	"fine":                 {having(attributes{"model": text("m"), "x.com/y": text("")}), nil, "a model x.com/y", ""},
	"attribute's name":     {having(attributes{"model": text("m"), "my attribute": text("m")}), nil, "a model", `attribute "my attribute": not published: `},
	"attribute's domain":   {having(attributes{"X y/z": text("m")}), nil, bare, `attribute "X y/z": not published: prefix: `},
	"domain in capitals":   {having(attributes{"X.com/y": text("m")}), nil, "a X.com/y", ""},
	"taint":                {tainted(1, "example.com/a", "v", "NoExecute"), nil, bare, ""},
	"taint's key":          {tainted(1, "a b", "", "NoExecute"), nil, "", `taint "a b": name part must consist`},
	"taint's value":        {tainted(1, "a", "b c", "NoExecute"), nil, "", `taint "a": a valid label`},
	"taint's effect":       {tainted(1, "a", "", "Never"), nil, "", `taint "a": effect "Never": must be None, NoSchedule or NoExecute`},
	"taint has no effect":  {tainted(1, "a", "", ""), nil, "", `taint "a": effect ""`},
	"15 taints":            {tainted(15, "a", "", "None"), nil, bare, ""},
	"16 taints":            {tainted(16, "a", "", "NoSchedule"), nil, "", "it has 16 taints, of at most 15"},
	"name has 33 letters":  {having(attributes{resourceapi.QualifiedName(strings.Repeat("a", 33)): text("m")}), nil, bare, "not published: "},
	"long text":            {having(attributes{"serial": text(strings.Repeat("x", 65))}), nil, bare, "its text has 65 bytes, of at most 64"},
	"long text in a list":  {having(attributes{"parts": {StringValues: []string{"a", strings.Repeat("x", 65)}}}), nil, bare, "its text has 65 bytes"},
	"no UTF-8":             {having(attributes{"serial": text("\xff")}), nil, bare, "its text is not UTF-8"},
	"no version":           {having(attributes{"driver": version("535.104")}), nil, bare, `"535.104" is not a semantic version`},
	"version with zeros":   {having(attributes{"driver": version("1.02.3")}), nil, bare, "is not a semantic version"},
	"version in a list":    {having(attributes{"d": {VersionValues: []string{"1.0.0", "v1.0.0"}}}), nil, bare, `"v1.0.0" is not a semantic version`},
	"version":              {having(attributes{"driver": version("1.2.3-rc.1+b")}), nil, "a driver", ""},
	"no value":             {having(attributes{"x": {}}), nil, bare, "it has 0 values"},
	"empty list":           {having(attributes{"x": {IntValues: []int64{}}}), nil, bare, "it has 0 values"},
	"two values":           {having(attributes{"x": {IntValue: ptr.To(int64(1)), BoolValue: ptr.To(true)}}), nil, bare, "it has 2 values"},
	"33 attributes":        {having(many(33)), nil, "a " + strings.Join(sortedKeys(many(32)), " "), `attribute "a32": not published: the device has more than 32`},
	"49 values":            {having(attributes{"a": {IntValues: make([]int64, 48)}, "b": text("")}), nil, "a a", `attribute "b": not published: the attributes of the device have more than 48 values`},
	"policy without share": {holding(1, within("1", "", "", "1")), nil, "", `capacity "memory": a request policy is for devices with shares only`},
	"range":                {holding(2, within("1", "9", "2", "3")), nil, bare, ""},
	"range above capacity": {holding(2, within("1", "11", "", "1")), nil, "", "the maximum is more than the capacity"},
	"range upside down":    {holding(2, within("5", "3", "", "4")), nil, "", "do not ascend"},
	"step is zero":         {holding(2, within("1", "", "0", "1")), nil, "", "the step is not positive"},
	"step is too wide":     {holding(2, within("1", "", "10", "1")), nil, "", "one step is more than the capacity"},
	"step misses":          {holding(2, within("1", "9", "2", "2")), nil, "", "2 is not reached by steps of 2 from 1"},
	"step is no number":    {holding(2, within("1", "", "1500m", "1")), nil, "", "not a whole number"},
	"values":               {holding(2, among("2", "1", "2", "10")), nil, bare, ""},
	"values descend":       {holding(2, among("2", "2", "1")), nil, "", "do not ascend"},
	"values are equal":     {holding(2, among("2", "2", "2")), nil, "", "do not ascend"},
	"value is too much":    {holding(2, among("2", "2", "11")), nil, "", "more than the capacity"},
	"no valid default":     {holding(2, among("3", "2", "4")), nil, "", "the default is not a valid value"},
	"too many values":      {holding(2, among("0", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")), nil, "", "11 valid values, of at most 10"},
	"counters":             {consumer("c"), []CounterSet{setOf("c", "m")}, bare, ""},
	"no counter set":       {consumer("c"), nil, "", `counter set "c": not in the pool`},
	"no such counter":      {consumer("c"), []CounterSet{setOf("c", "other")}, "", `counter set "c": it has no counter "m"`},
	"consumed twice":       {consumer("c", "c"), []CounterSet{setOf("c", "m")}, "", "it is consumed twice"},
	"three sets":           {consumer("c", "d", "e"), []CounterSet{setOf("c", "m"), setOf("d", "m"), setOf("e", "m")}, "", "it consumes counters of 3 sets, of at most 2"},
	"set's name":           {gpu("a"), []CounterSet{setOf("C 1", "m")}, bare, "counter set gpu.example.com/node-1/C 1: not published: "},
	"set is there twice":   {gpu("a"), []CounterSet{setOf("c", "m"), setOf("c", "m")}, bare, "another counter set of the pool has this name"},
	"set with too many":    {gpu("a"), []CounterSet{setOf("c", sortedKeys(many(33))...)}, bare, "it has 33 counters, and must have 1 to 32"},
	"set without counters": {gpu("a"), []CounterSet{setOf("c")}, bare, "it has 0 counters"},
	"counter's name":       {gpu("a"), []CounterSet{setOf("c", "M 1")}, bare, `counter "M 1": `},
}

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

// tainted makes a device with so many equal taints.
func tainted(n int, key, value string, effect resourceapi.DeviceTaintEffect) Device {
	return gpu("a", func(d *Device) {
		d.Taints = slices.Repeat([]resourceapi.DeviceTaint{{Key: key, Value: value, Effect: effect}}, n)
	})
}

func version(s string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{VersionValue: &s}
}

// within makes a policy with a range. Most and step may be empty.
func within(least, most, step, standard string) *resourceapi.CapacityRequestPolicy {
	policy := &resourceapi.CapacityRequestPolicy{Default: quantity(standard), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity(least)}}
	if most != "" {
		policy.ValidRange.Max = quantity(most)
	}
	if step != "" {
		policy.ValidRange.Step = quantity(step)
	}
	return policy
}

// among makes a policy with values.
func among(standard string, values ...string) *resourceapi.CapacityRequestPolicy {
	policy := &resourceapi.CapacityRequestPolicy{Default: quantity(standard)}
	for _, value := range values {
		policy.ValidValues = append(policy.ValidValues, *quantity(value))
	}
	return policy
}

func setOf(name string, counters ...string) CounterSet {
	return CounterSet{gpus, "node-1", resourceapi.CounterSet{Name: name, Counters: someCounters(counters...)}}
}

// consumer makes a device that consumes a counter of each set.
func consumer(sets ...string) Device {
	return gpu("a", func(d *Device) {
		for _, name := range sets {
			d.Consumes = append(d.Consumes, resourceapi.DeviceCounterConsumption{CounterSet: name, Counters: someCounters("m")})
		}
	})
}

// TestUnpublished: what the API server would refuse is left out and told. All else is
// published, the device "good" always.
func TestUnpublished(t *testing.T) {
	for name, test := range unpublishedTests {
		t.Run(name, func(t *testing.T) {
			in := &Inventory{Devices: []Device{gpu("good"), test.device}, CounterSets: test.sets}
			before := len(test.device.Attributes)
			if got := publishedOf(in); got != test.want {
				t.Errorf("published %q, want %q", got, test.want)
			}
			problems := in.Unpublished(gpus)
			if test.told == "" && len(problems) > 0 || test.told != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), test.told)) {
				t.Errorf("told %v, want %q", problems, test.told)
			}
			if len(test.device.Attributes) != before {
				t.Error("the record was modified")
			}
		})
	}
}

func sortedKeys(of attributes) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, string(name))
	}
	return out
}

// publishedOf is the second device's name and its attributes, if it is published. The first
// one must be.
func publishedOf(in *Inventory) string {
	var devices []resourceapi.Device
	for _, pool := range in.DriverResources(gpus, nil, nil).Pools {
		for _, slice := range pool.Slices {
			devices = append(devices, slice.Devices...)
		}
	}
	slices.SortFunc(devices, func(a, b resourceapi.Device) int { return strings.Compare(b.Name, a.Name) })
	switch {
	case len(devices) == 0 || devices[0].Name != "good":
		return fmt.Sprintf("the good device is missing among %d", len(devices))
	case len(devices) == 1:
		return ""
	}
	return strings.Join(append([]string{devices[1].Name}, sortedKeys(devices[1].Attributes)...), " ")
}

// TestStandardAttributesStay: what the source knows besides makes room for them.
func TestStandardAttributesStay(t *testing.T) {
	device := having(many(32))
	device.Topology.NUMANodes = []int{1}
	in := &Inventory{Devices: []Device{gpu("good"), device}}
	if got := publishedOf(in); !strings.Contains(got, "resource.kubernetes.io/numaNode") || strings.Contains(got, "a31") {
		t.Errorf("published %q", got)
	}
}

// TestCapacitiesTakeRoom: a device has no more attributes and capacities together than the API takes.
func TestCapacitiesTakeRoom(t *testing.T) {
	device := having(many(32))
	device.Capacity = make(ofCapacity)
	for i := range 20 {
		device.Capacity[resourceapi.QualifiedName(fmt.Sprintf("c%02d", i))] = resourceapi.DeviceCapacity{Value: resource.MustParse("1")}
	}
	in := &Inventory{Devices: []Device{gpu("good"), device}}
	if got := strings.Fields(publishedOf(in)); len(got) != 1+12 {
		t.Errorf("published %q, want 12 attributes beside 20 capacities", got)
	}
	for i := range 13 {
		device.Capacity[resourceapi.QualifiedName(fmt.Sprintf("d%02d", i))] = resourceapi.DeviceCapacity{Value: resource.MustParse("1")}
	}
	if problems := in.Unpublished("gpu.example.com"); publishedOf(in) != "" || len(problems) != 1 || !strings.Contains(problems[0].Error(), "33 capacities, of at most 32") {
		t.Errorf("with 33 capacities, published %q: %v", publishedOf(in), problems)
	}
}

// TestNotReported: network data and data of a device that the status of a claim cannot have.
func TestNotReported(t *testing.T) {
	device := gpu("a")
	device.Data = map[string]any{"x": strings.Repeat("x", resourceapi.AllocatedDeviceStatusDataMaxLength)}
	device.Network = &resourceapi.NetworkDeviceData{
		InterfaceName: strings.Repeat("e", 257), HardwareAddress: "\xff",
		IPs: []string{"192.0.2.1/24", "192.0.2.1/24", "192.0.2.300/24"},
	}
	for i := range 20 {
		device.Network.IPs = append(device.Network.IPs, fmt.Sprintf("192.0.2.%d/24", i+2))
	}
	if got := device.ReportedNetwork(); got.InterfaceName != "" || got.HardwareAddress != "" || len(got.IPs) != 16 || got.IPs[1] != "192.0.2.2/24" {
		t.Errorf("network data %+v", got)
	}
	if raw := device.ReportedDetails(); raw != nil {
		t.Errorf("%d bytes of data", len(raw))
	}
	var told []string
	for _, problem := range (&Inventory{Devices: []Device{device}}).Unpublished(gpus) {
		told = append(told, problem.Error())
	}
	text := strings.Join(told, "\n")
	for _, want := range []string{
		"device gpu.example.com/node-1/a: not reported: networkData: interfaceName: it has 257 bytes, of at most 256",
		"hardwareAddress: it is not UTF-8", `ips: "192.0.2.1/24": it is there twice`, `ips: "192.0.2.300/24": `, `ips: "192.0.2.21/24": there are more than 16`,
		"data: it has 10248 bytes as JSON, of at most 10240",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("told\n%s\nwithout %q", text, want)
		}
	}
}

func TestHealthMessage(t *testing.T) {
	for text, want := range map[string]string{
		"2 bits": "2 bits", "\xff2 bits": "2 bits",
		strings.Repeat("ü", 1000):       strings.Repeat("ü", corev1.ResourceHealthMessageMaxLength/2),
		"x" + strings.Repeat("ü", 1000): "x" + strings.Repeat("ü", corev1.ResourceHealthMessageMaxLength/2-1),
	} {
		if got := HealthMessage(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestEntriesOfAttributes counts what the API limits: the values of all lists, and one for a single value.
func TestEntriesOfAttributes(t *testing.T) {
	text := "1.0.0"
	for want, attribute := range map[int]resourceapi.DeviceAttribute{
		1: {StringValue: &text},
		2: {IntValues: []int64{1, 2}},
		3: {BoolValues: []bool{true, false, true}},
		4: {StringValues: []string{"a", "b", "c", "d"}},
		5: {VersionValues: []string{text, text, text, text, text}},
	} {
		if got := entries(&attribute); got != want {
			t.Errorf("%d values count as %d", want, got)
		}
	}
}
