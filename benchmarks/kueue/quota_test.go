// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

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
	"sigs.k8s.io/kueue/pkg/resources"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/charge"
	"github.com/dray-project/dray/pools"
)

// answer is what a workload counts, in the numbers that kueue keeps of it, or that it is not admitted.
type answer struct {
	counts map[corev1.ResourceName]int64
	no     error
}

func answered(list corev1.ResourceList, err error) answer {
	a := answer{make(map[corev1.ResourceName]int64), err}
	for name, quantity := range list {
		a.counts[name] = resources.ResourceValue(name, quantity)
	}
	return a
}

func (a answer) String() string {
	if a.no != nil {
		return "no: " + a.no.Error()
	}
	return fmt.Sprint(a.counts)
}

func (a answer) equals(b answer) bool {
	if a.no != nil || b.no != nil {
		return a.no != nil && b.no != nil
	}
	return maps.Equal(a.counts, b.counts)
}

func (w *workload) byKueue(t *testing.T) answer { return answered(w.counted(t.Context())) }

// byDray is what Dray says that kueue counts.
func (w *workload) byDray(t *testing.T) answer {
	classes := slices.Collect(maps.Values(w.classes))
	features := allocator.AllFeatures()
	cluster := charge.NewCluster(features, pools.Build(features.PoolGates(), w.slices), nil, allocator.ClassMap(classes...))
	list := corev1.ResourceList{}
	for _, claim := range w.claims {
		part, err := cluster.Kueue(t.Context(), claim, w.mappings)
		if err != nil {
			return answered(nil, err)
		}
		add(list, part)
	}
	part, err := charge.KueueExtended(&w.pod, classes, w.mappings)
	add(list, part)
	return answered(list, err)
}

// clone is a workload of which all can be changed.
func (w *workload) clone() *workload {
	n := &workload{pod: *w.pod.DeepCopy()}
	for _, slice := range w.slices {
		n.slices = append(n.slices, slice.DeepCopy())
	}
	n.classes = make(map[string]*resourceapi.DeviceClass, len(w.classes))
	for name, class := range w.classes {
		n.classes[name] = class.DeepCopy()
	}
	for _, claim := range w.claims {
		n.claims = append(n.claims, claim.DeepCopy())
	}
	for _, m := range w.mappings {
		m.Classes, m.Sources = slices.Clone(m.Classes), slices.Clone(m.Sources)
		n.mappings = append(n.mappings, m)
	}
	return n
}

// differences are all that may make the answers differ: changes after which they have to be equal. Each is about something in which kueue differs
// from Kubernetes, or this version of it from the next one; README.md has them.
var differences = []struct {
	name   string
	change func(w *workload)
}{
	{"admin access", func(w *workload) {
		for _, claim := range w.claims {
			claim.Devices.Requests = slices.DeleteFunc(claim.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
				return r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false)
			})
		}
	}},
	{"pools whose slices disagree", func(w *workload) {
		for _, a := range w.slices {
			for _, b := range w.slices {
				if samePool(a, b) && a.Spec.Pool.Generation == b.Spec.Pool.Generation && a.Spec.Pool.ResourceSliceCount != b.Spec.Pool.ResourceSliceCount {
					a.Spec.Pool.ResourceSliceCount, b.Spec.Pool.ResourceSliceCount = 1000, 1000
				}
			}
		}
	}},
	{"slices of an older generation", func(w *workload) {
		w.slices = slices.DeleteFunc(slices.Clone(w.slices), func(old *resourceapi.ResourceSlice) bool {
			return slices.ContainsFunc(w.slices, func(s *resourceapi.ResourceSlice) bool {
				return samePool(s, old) && s.Spec.Pool.Generation > old.Spec.Pool.Generation
			})
		})
	}},
	{"selectors about multiple allocations", func(w *workload) {
		for _, slice := range w.slices {
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].AllowMultipleAllocations = nil
			}
		}
	}},
}

// TestQuota compares what generated workloads count, and which are not admitted. Each difference has to be one that is known.
func TestQuota(t *testing.T) {
	const workloads = 6000
	var counting, refused, extended int
	known := make(map[string]int)
	for seed := range uint64(workloads) {
		w := generate(seed)
		kueue, dray := w.byKueue(t), w.byDray(t)
		switch {
		case !kueue.equals(dray):
			if name := explained(t, w); name != "" {
				known[name]++
			} else {
				t.Errorf("workload %d: kueue: %s\nDray: %s", seed, kueue, dray)
			}
		case kueue.no != nil:
			refused++
		default:
			counting++
			if slices.ContainsFunc(w.pod.Containers, func(c corev1.Container) bool { return len(c.Resources.Requests) > 0 }) {
				extended++
			}
		}
	}
	t.Logf("%d workloads count the same, %d of them with extended resources; %d are refused by both; differences: %v", counting, extended, refused, known)
	if counting < workloads/2 || refused < workloads/10 || extended < workloads/10 {
		t.Error("too few workloads are compared")
	}
	for _, d := range differences {
		if known[d.name] == 0 {
			t.Errorf("%s: no longer a difference", d.name)
		}
	}
}

// explained is the known difference without which the answers are equal, and empty if there is none.
func explained(t *testing.T, w *workload) string {
	all := w.clone()
	for _, d := range differences {
		n := w.clone()
		d.change(n)
		if n.byKueue(t).equals(n.byDray(t)) {
			return d.name
		}
		if d.change(all); all.byKueue(t).equals(all.byDray(t)) {
			return d.name
		}
	}
	return ""
}

// TestQuotaComparisonSeesChanges changes what kueue is asked in small ways, and wants each to be seen by the comparison.
func TestQuotaComparisonSeesChanges(t *testing.T) {
	const workloads = 1500
	seen := make([]int, len(plants))
	for seed := range uint64(workloads) {
		w := generate(seed)
		dray := w.byDray(t)
		if !w.byKueue(t).equals(dray) {
			continue
		}
		for i, plant := range plants {
			n := w.clone()
			if plant.change(n); !n.byKueue(t).equals(dray) {
				seen[i]++
			}
		}
	}
	for i, plant := range plants {
		if t.Logf("%s: seen %d times", plant.name, seen[i]); seen[i] < 10 {
			t.Errorf("%s: seen only %d times", plant.name, seen[i])
		}
	}
}

// plants are changes that have to be seen.
var plants = []struct {
	name   string
	change func(w *workload)
}{
	{"one device more is asked for", func(w *workload) {
		for r := range exactly(w) {
			r.Count++
			return
		}
	}},
	{"all devices are asked for", func(w *workload) {
		for r := range exactly(w) {
			r.AllocationMode = resourceapi.DeviceAllocationModeAll
			return
		}
	}},
	{"a selector holds for no device", func(w *workload) {
		for r := range exactly(w) {
			r.Selectors = append(r.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}})
			return
		}
	}},
	{"another class is asked for", func(w *workload) {
		for r := range exactly(w) {
			r.DeviceClassName += "-other"
			return
		}
	}},
	{"more of a capacity is asked for", func(w *workload) {
		for r := range exactly(w) {
			for name, quantity := range requested(r) {
				quantity.Add(resource.MustParse("3Gi"))
				r.Capacity.Requests[name] = quantity
			}
		}
	}},
	{"devices have more", func(w *workload) {
		for _, slice := range w.slices {
			for i := range slice.Spec.Devices {
				for name, capacity := range slice.Spec.Devices[i].Capacity {
					capacity.Value.Add(resource.MustParse("1"))
					slice.Spec.Devices[i].Capacity[name] = capacity
				}
			}
		}
	}},
	{"devices draw more", func(w *workload) {
		for _, slice := range w.slices {
			for i := range slice.Spec.Devices {
				for _, consumption := range slice.Spec.Devices[i].ConsumesCounters {
					for name, counter := range consumption.Counters {
						counter.Value.Add(resource.MustParse("1"))
						consumption.Counters[name] = counter
					}
				}
			}
		}
	}},
	{"a slice is missing", func(w *workload) {
		w.slices = w.slices[:max(0, len(w.slices)-1)]
	}},
	{"a class is for no device", func(w *workload) {
		for _, class := range w.classes {
			class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}})
		}
	}},
	{"a resource has another name", func(w *workload) {
		for i := range w.mappings {
			w.mappings[i].Resource += "-other"
		}
	}},
	{"a mapping is missing", func(w *workload) { w.mappings = w.mappings[:max(0, len(w.mappings)-1)] }},
	{"a source is missing", func(w *workload) {
		for i := range w.mappings {
			w.mappings[i].Sources = w.mappings[i].Sources[:max(0, len(w.mappings[i].Sources)-1)]
		}
	}},
	{"a source is of another driver", func(w *workload) {
		for i := range w.mappings {
			for j := range w.mappings[i].Sources {
				w.mappings[i].Sources[j].Driver = strings.Replace(w.mappings[i].Sources[j].Driver, "gpu", "tpu", 1)
			}
		}
	}},
	{"containers ask for one more", func(w *workload) {
		for _, container := range w.pod.Containers {
			for name, quantity := range container.Resources.Requests {
				quantity.Add(resource.MustParse("1"))
				container.Resources.Requests[name] = quantity
			}
		}
	}},
	{"init containers ask for more", func(w *workload) {
		for _, container := range w.pod.InitContainers {
			for name, quantity := range container.Resources.Requests {
				quantity.Add(resource.MustParse("10"))
				container.Resources.Requests[name] = quantity
			}
		}
	}},
	{"the older class counts", func(w *workload) {
		for _, class := range w.classes {
			class.CreationTimestamp.Time = class.CreationTimestamp.AddDate(0, 0, -2*class.CreationTimestamp.Second())
		}
	}},
}

// exactly are the requests of a workload for devices of one class.
func exactly(w *workload) func(yield func(*resourceapi.ExactDeviceRequest) bool) {
	return func(yield func(*resourceapi.ExactDeviceRequest) bool) {
		for _, claim := range w.claims {
			for i := range claim.Devices.Requests {
				if r := claim.Devices.Requests[i].Exactly; r != nil && !yield(r) {
					return
				}
			}
		}
	}
}
