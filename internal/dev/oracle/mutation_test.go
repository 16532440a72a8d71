// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
)

// mutation breaks a correct answer, or changes the case so that the answer is no
// longer correct. It returns false if it does not apply.
type mutation func(c *alloctest.Case, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool

// onDevice applies to the first device of a result, in its slice.
func onDevice(change func(*resourceapi.DeviceRequestAllocationResult, *resourceapi.ResourceSlice, *resourceapi.Device) bool) mutation {
	return func(c *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		if len(result.Devices.Results) == 0 {
			return false
		}
		r := &result.Devices.Results[0]
		for _, slice := range c.Slices {
			for i := range slice.Spec.Devices {
				d := &slice.Spec.Devices[i]
				if slice.Spec.Driver == r.Driver && slice.Spec.Pool.Name == r.Pool && d.Name == r.Device {
					return change(r, slice, d)
				}
			}
		}
		return false
	}
}

func onResult(change func(*resourceapi.DeviceRequestAllocationResult) bool) mutation {
	return onDevice(func(r *resourceapi.DeviceRequestAllocationResult, _ *resourceapi.ResourceSlice, _ *resourceapi.Device) bool {
		return change(r)
	})
}

var resultMutations = map[string]mutation{
	"device dropped": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		devices := result.Devices.Results
		result.Devices.Results = devices[:max(0, len(devices)-1)]
		return len(devices) > 0
	},
	"device twice": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		devices := result.Devices.Results
		result.Devices.Results = slices.Concat(devices, devices)
		return len(devices) > 0
	},
	"device unknown": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.Device = "unknown"
		return true
	}),
	"driver swapped": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.Driver = "other.example.com"
		return true
	}),
	"request renamed": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.Request += "x"
		return true
	}),
	"admin access flipped": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.AdminAccess = ptr.To(r.AdminAccess == nil)
		return true
	}),
	"toleration added": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.Tolerations = append(r.Tolerations, resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists})
		return true
	}),
	"toleration dropped": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		had := len(r.Tolerations) > 0
		r.Tolerations = nil
		return had
	}),
	"share ID flipped": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		if r.ShareID != nil {
			r.ShareID = nil
		} else {
			r.ShareID = ptr.To(types.UID("x"))
		}
		return true
	}),
	"share ID reused": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		var shared []*resourceapi.DeviceRequestAllocationResult
		for i := range result.Devices.Results {
			if result.Devices.Results[i].ShareID != nil {
				shared = append(shared, &result.Devices.Results[i])
			}
		}
		if len(shared) < 2 {
			return false
		}
		shared[1].ShareID = shared[0].ShareID
		return true
	},
	"consumed capacity changed": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		for name, q := range r.ConsumedCapacity {
			q.Add(resource.MustParse("1"))
			r.ConsumedCapacity[name] = q
		}
		return len(r.ConsumedCapacity) > 0
	}),
	"binding condition dropped": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		had := len(r.BindingConditions) > 0
		r.BindingConditions = nil
		return had
	}),
	"binding failure condition added": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.BindingFailureConditions = append(r.BindingFailureConditions, "x")
		return true
	}),
	"node operations flipped": onResult(func(r *resourceapi.DeviceRequestAllocationResult) bool {
		r.SkipNodeOperations = append(r.SkipNodeOperations, "x")
		return true
	}),
	"config dropped": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		had := len(result.Devices.Config) > 0
		result.Devices.Config = result.Devices.Config[:max(0, len(result.Devices.Config)-1)]
		return had
	},
	"configs swapped": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		slices.Reverse(result.Devices.Config)
		return len(result.Devices.Config) > 1
	},
	"config requests changed": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		if len(result.Devices.Config) == 0 {
			return false
		}
		result.Devices.Config[0].Requests = append(result.Devices.Config[0].Requests, "x")
		return true
	},
	"node selector flipped": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		if result.NodeSelector != nil {
			result.NodeSelector = nil
		} else {
			result.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		}
		return true
	},
	"node selector for another node": func(_ *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		if result.NodeSelector == nil || len(result.NodeSelector.NodeSelectorTerms[0].MatchFields) == 0 {
			return false
		}
		result.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values = []string{"elsewhere"}
		return true
	},
}

func TestVerifyRefusesMutatedResults(t *testing.T) { refusesMutations(t, resultMutations) }

func TestVerifyRefusesResultsOfMutatedCases(t *testing.T) { refusesMutations(t, caseMutations) }

func refusesMutations(t *testing.T, mutations map[string]mutation) {
	const enough = 5
	applied := make(map[string]int)
	missing := len(mutations)
	eachAnswer(t, 3000, clustergen.Default, func(c *alloctest.Case, outcome alloctest.Outcome) {
		if missing == 0 || c.Features != allocator.AllFeatures() || slices.Contains(clustergen.Tags(c), "stale slices") {
			// With gates off or stale slices, a mutation may be without effect.
			return
		}
		for i := range outcome.Results {
			for name, mutate := range mutations {
				if applied[name] == enough {
					continue
				}
				changed, results := c.DeepCopy(), copyResults(outcome.Results)
				if !mutate(changed, changed.Claims[i], &results[i]) {
					continue
				}
				applied[name]++
				if applied[name] == enough {
					missing--
				}
				if oracle.Verify(changed, results) == nil {
					t.Errorf("%s claim %d: accepted: %s", c.Name, i, name)
				}
			}
		}
	})
	for name := range mutations {
		if applied[name] < enough {
			t.Errorf("%s: applied to %d results only", name, applied[name])
		}
	}
}

func copyResults(results []resourceapi.AllocationResult) []resourceapi.AllocationResult {
	copied := make([]resourceapi.AllocationResult, len(results))
	for i := range results {
		copied[i] = *results[i].DeepCopy()
	}
	return copied
}
