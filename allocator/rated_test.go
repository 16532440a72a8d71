// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// ratedDevice is a device as the sorting of policies sees it. What it lacks is 0, numa is -1 without it.
type ratedDevice struct {
	name          string
	memory, cores int64
	shareable     bool
	used          bool  // as a whole
	shares        bool  // some are in use
	taken         int64 // of the memory, by shares in use
	draws         int64 // of the counter
	numa          int
}

// ratedOption is an alternative of a request.
type ratedOption struct {
	name                 string
	count, memory, cores int64
}

// ratedRequest is of a claim, with one alternative or two.
type ratedRequest struct {
	claim   int
	name    string
	options []ratedOption
}

// ratedCase is a node with few devices, and what is asked for, drawn at random.
type ratedCase struct {
	*rand.Rand
	devices  []*ratedDevice
	total    int64 // of the counter
	requests []ratedRequest
	claims   int
	topology bool
}

const counterName = "slices"

func drawRated(seed uint64) *ratedCase {
	s := &ratedCase{Rand: rand.New(rand.NewPCG(seed, 43)), total: 9}
	s.topology = s.IntN(2) == 0
	left := s.total
	for i := range 2 + s.IntN(4) {
		d := &ratedDevice{name: fmt.Sprintf("d%d", i), numa: s.IntN(3) - 1}
		if s.IntN(6) > 0 {
			d.memory = 1 + s.Int64N(8)
		}
		if d.shareable = d.memory > 0 && s.IntN(2) == 0; !d.shareable && s.IntN(2) == 0 {
			d.cores = 1 + s.Int64N(4)
		}
		if s.IntN(3) == 0 {
			d.draws = 1 + s.Int64N(4)
		}
		if d.draws <= left && s.IntN(3) == 0 {
			d.used = !d.shareable
			if d.shares = d.shareable; d.shares {
				d.taken = 1 + s.Int64N(d.memory)
			}
			left -= d.draws
		}
		s.devices = append(s.devices, d)
	}
	s.claims = 1 + s.IntN(2)
	for c := range s.claims {
		for r := range 1 + s.IntN(2) {
			request := ratedRequest{claim: c, name: fmt.Sprintf("r%d", r)}
			for o := range 1 + s.IntN(2) {
				option := ratedOption{name: fmt.Sprintf("o%d", o), count: 1 + int64(s.IntN(2))}
				if s.IntN(2) == 0 {
					option.memory = 1 + s.Int64N(4)
				}
				if s.IntN(4) == 0 {
					option.cores = 1 + s.Int64N(2)
				}
				request.options = append(request.options, option)
			}
			s.requests = append(s.requests, request)
		}
	}
	return s
}

// slices are those of the node.
func (s *ratedCase) slices() []*resourceapi.ResourceSlice {
	spec := resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: ptr.To("here"), Pool: resourceapi.ResourcePool{Name: "here", Generation: 1, ResourceSliceCount: 2}}
	counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "counters"}, Spec: *spec.DeepCopy()}
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{counterName: {Value: *resource.NewQuantity(s.total, resource.DecimalSI)}}}}
	devices := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Spec: spec}
	for _, d := range s.devices {
		made := resourceapi.Device{Name: d.name, Capacity: make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity), Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)}
		if d.memory > 0 {
			made.Capacity[memory] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(d.memory, resource.DecimalSI)}
		}
		if d.cores > 0 {
			made.Capacity["cores"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(d.cores, resource.DecimalSI)}
		}
		if d.shareable {
			one := resource.MustParse("1")
			made.AllowMultipleAllocations = ptr.To(true)
			made.Capacity[memory] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(d.memory, resource.DecimalSI), RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default: &one, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &one, Step: &one},
			}}
		}
		if d.draws > 0 {
			made.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{counterName: {Value: *resource.NewQuantity(d.draws, resource.DecimalSI)}}}}
		}
		if d.numa >= 0 {
			made.Attributes[resourceapi.QualifiedName(numa)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(d.numa))}
		}
		devices.Spec.Devices = append(devices.Spec.Devices, made)
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

// inUse are the claims that hold devices.
func (s *ratedCase) inUse() (list []*resourceapi.ResourceClaim) {
	for i, d := range s.devices {
		if d.used || d.shares {
			held := &smallDevice{DeviceID: pools.DeviceID{Driver: "gpu.example.com", Pool: "here", Device: d.name}, inUse: d.taken}
			if d.shares {
				held.step = 1
			}
			c := holder(fmt.Sprintf("used-%d", i), held)
			c.UID = types.UID(fmt.Sprintf("uid-%d", i))
			list = append(list, c)
		}
	}
	return list
}

func (o ratedOption) asked() *resourceapi.CapacityRequirements {
	asked := &resourceapi.CapacityRequirements{Requests: make(map[resourceapi.QualifiedName]resource.Quantity)}
	if o.memory > 0 {
		asked.Requests[memory] = *resource.NewQuantity(o.memory, resource.DecimalSI)
	}
	if o.cores > 0 {
		asked.Requests["cores"] = *resource.NewQuantity(o.cores, resource.DecimalSI)
	}
	return asked
}

func (s *ratedCase) objects() []*resourceapi.ResourceClaim {
	list := make([]*resourceapi.ResourceClaim, s.claims)
	for i := range list {
		list[i] = claim(fmt.Sprintf("c%d", i))
	}
	for _, r := range s.requests {
		request := resourceapi.DeviceRequest{Name: r.name}
		if len(r.options) == 1 {
			request.Exactly = &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: r.options[0].count, Capacity: r.options[0].asked(),
			}
		} else {
			for _, o := range r.options {
				request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
					Name: o.name, DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: o.count, Capacity: o.asked(),
				})
			}
		}
		devices := &list[r.claim].Spec.Devices
		devices.Requests = append(devices.Requests, request)
	}
	return list
}
