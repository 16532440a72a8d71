// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// oddTags are what only oddities bring about, without those that a decision is about.
var oddTags = []Tag{
	"names with and without domain", "quantities in thousandths", "repeated elements", "rare operators", "tolerations with seconds",
	"empty binding conditions", "config without requests", "unknown names", "strange capacity in use", "negative counters", "eight alternatives",
	"negative capacity", "two slashes", "both kinds of a constraint", "several terms of a device", "many tolerations", "strange capacity requests",
}

func (t tagger) oddities(c *alloctest.Case) {
	for _, slice := range c.Slices {
		t.oddSlice(slice)
	}
	for _, claim := range c.Claims {
		t.oddClaim(claim)
	}
	for _, claim := range c.Allocated {
		for _, result := range claim.Status.Allocation.Devices.Results {
			_, strange := result.ConsumedCapacity["strange"]
			t.set("strange capacity in use", strange)
		}
	}
}

func (t tagger) oddSlice(slice *resourceapi.ResourceSlice) {
	if s := slice.Spec.NodeSelector; s != nil {
		for _, term := range s.NodeSelectorTerms {
			t.set("rare operators", slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
				return r.Operator == corev1.NodeSelectorOpGt || r.Operator == corev1.NodeSelectorOpLt || r.Operator == corev1.NodeSelectorOpDoesNotExist
			}))
		}
	}
	for _, device := range slice.Spec.Devices {
		t.set("several terms of a device", device.NodeSelector != nil && len(device.NodeSelector.NodeSelectorTerms) > 1)
		for name, attribute := range device.Attributes {
			t.set("two slashes", name == "a/b/c")
			_, qualified := device.Attributes[resourceapi.QualifiedName(slice.Spec.Driver)+"/"+name]
			t.set("names with and without domain", qualified)
			t.set("repeated elements", len(slices.Compact(slices.Sorted(slices.Values(attribute.IntValues)))) < len(attribute.IntValues))
		}
		for _, capacity := range device.Capacity {
			t.set("quantities in thousandths", rewritten(capacity.Value))
			t.set("negative capacity", capacity.Value.Sign() < 0)
		}
		t.set("empty binding conditions", device.BindingConditions != nil && len(device.BindingConditions) == 0)
		for _, consumption := range device.ConsumesCounters {
			for _, counter := range consumption.Counters {
				t.set("negative counters", counter.Value.Sign() < 0)
			}
		}
	}
}

// rewritten reports whether a quantity is not in the form that its text has.
func rewritten(q resource.Quantity) bool { return q != resource.MustParse(q.String()) }

func (t tagger) oddClaim(claim *resourceapi.ResourceClaim) {
	devices := &claim.Spec.Devices
	known := requestNames(claim)
	for _, constraint := range devices.Constraints {
		t.set("both kinds of a constraint", constraint.MatchAttribute != nil && constraint.DistinctAttribute != nil)
		t.set("unknown names", slices.ContainsFunc(constraint.Requests, func(name string) bool { return !slices.Contains(known, name) }))
	}
	t.set("config without requests", len(devices.Requests) == 0 && len(devices.Config) > 0)
	for _, request := range devices.Requests {
		t.set("eight alternatives", len(request.FirstAvailable) == resourceapi.FirstAvailableDeviceRequestMaxSize)
		if request.Exactly != nil {
			t.set("many tolerations", len(request.Exactly.Tolerations) > resourceapi.DeviceTolerationsMaxLength)
			if request.Exactly.Capacity != nil {
				for name := range request.Exactly.Capacity.Requests {
					t.set("strange capacity requests", slices.Contains(strangeNames, name))
				}
			}
			t.set("tolerations with seconds", slices.ContainsFunc(request.Exactly.Tolerations, func(x resourceapi.DeviceToleration) bool {
				return ptr.Deref(x.TolerationSeconds, 0) != 0
			}))
		}
	}
}

// ordered goes through a map by key, as long as no keys come or go.
func ordered[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
