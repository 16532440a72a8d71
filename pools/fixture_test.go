package pools

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const testDriver = "gpu.example.com"

var allGates = Gates{PartitionableDevices: true, CompatibilityGroups: true, ConsumableCapacity: true}

// sliceOption changes a slice under construction.
type sliceOption func(*resourceapi.ResourceSlice)

// newSlice returns the only slice, of generation 1, of a pool. Unless an option
// says otherwise it reaches no node.
func newSlice(name, pool string, options ...sliceOption) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: testDriver,
			Pool:   resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, option := range options {
		option(s)
	}
	return s
}

func driver(name string) sliceOption {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Driver = name }
}

func generation(generation, count int64) sliceOption {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, count
	}
}

func count(count int64) sliceOption { return generation(1, count) }

func onNode(name string) sliceOption {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = &name }
}

func everywhere(s *resourceapi.ResourceSlice) { s.Spec.AllNodes = ptr.To(true) }

func selecting(selector *corev1.NodeSelector) sliceOption {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeSelector = selector }
}

func perDevice(s *resourceapi.ResourceSlice) { s.Spec.PerDeviceNodeSelection = ptr.To(true) }

func devices(names ...string) sliceOption {
	return func(s *resourceapi.ResourceSlice) {
		for _, name := range names {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name})
		}
	}
}

func device(name string, options ...func(*resourceapi.Device)) sliceOption {
	d := resourceapi.Device{Name: name}
	for _, option := range options {
		option(&d)
	}
	return func(s *resourceapi.ResourceSlice) { s.Spec.Devices = append(s.Spec.Devices, d) }
}

func deviceOnNode(name string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.NodeName = &name }
}

func deviceSelecting(selector *corev1.NodeSelector) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.NodeSelector = selector }
}

func binding(conditions ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.BindingConditions = append([]string{}, conditions...) }
}

// consumes takes amount of the counter "memory" of a set, in compatibility groups.
func consumes(set, amount string, groups ...string) func(*resourceapi.Device) {
	return consumesCounter(set, "memory", amount, groups...)
}

func consumesCounter(set, counter, amount string, groups ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{
			CounterSet:          set,
			Counters:            map[string]resourceapi.Counter{counter: {Value: resource.MustParse(amount)}},
			CompatibilityGroups: groups,
		})
	}
}

func attribute(name resourceapi.QualifiedName, value resourceapi.DeviceAttribute) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		if d.Attributes == nil {
			d.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
		}
		d.Attributes[name] = value
	}
}

func capacity(name resourceapi.QualifiedName, value string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		if d.Capacity == nil {
			d.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
		}
		d.Capacity[name] = resourceapi.DeviceCapacity{Value: resource.MustParse(value)}
	}
}

func multiple(d *resourceapi.Device) { d.AllowMultipleAllocations = ptr.To(true) }

// counterSet publishes a set with the one counter "memory".
func counterSet(name, memory string) sliceOption {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{
			Name:     name,
			Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}},
		})
	}
}

func inZone(values ...string) *corev1.NodeSelector {
	return nodeSelector("zone", corev1.NodeSelectorOpIn, values...)
}

func nodeSelector(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
	}}}
}

// unparsable is a selector with an operator that does not exist.
func unparsable() *corev1.NodeSelector { return nodeSelector("zone", "Near", "a") }

func newNode(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		node.Labels[labels[i]] = labels[i+1]
	}
	return node
}

// claimOption adds a result to the allocation of a claim.
type claimOption func(*resourceapi.DeviceRequestAllocationResult)

// newClaim returns a claim that is allocated all of the devices, or shares of them
// if share options are given, of pool "p" of the test driver.
func newClaim(name string, device []string, options ...claimOption) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
	}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range device {
		result := resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: testDriver, Pool: "p", Device: d}
		for _, option := range options {
			option(&result)
		}
		results := &claim.Status.Allocation.Devices.Results
		*results = append(*results, result)
	}
	return claim
}

func share(id, bandwidth string) claimOption {
	return func(r *resourceapi.DeviceRequestAllocationResult) {
		r.ShareID = ptr.To(types.UID(id))
		if bandwidth != "" {
			r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(bandwidth)}
		}
	}
}

func inPool(pool string) claimOption {
	return func(r *resourceapi.DeviceRequestAllocationResult) { r.Pool = pool }
}

func admin(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }
