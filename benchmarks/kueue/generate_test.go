// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/charge"
	"github.com/dray-project/dray/internal/dev/clustergen"
)

// generator makes workloads of the clusters and claims that Dray is compared with Kubernetes on.
type generator struct {
	*rand.Rand
	w *workload
}

// generate makes the workload of a seed, always the same one. Slices are in the order of drivers, pools and names.
func generate(seed uint64) *workload {
	profiles := []clustergen.Profile{clustergen.Pairs, clustergen.Default, clustergen.Shares}
	c := clustergen.Generate(seed, profiles[seed%uint64(len(profiles))])
	g := &generator{rand.New(rand.NewPCG(seed, 0x6b75657565)), &workload{}}
	g.w.slices, g.w.classes = c.Slices, make(map[string]*resourceapi.DeviceClass)
	for _, class := range c.Classes {
		g.w.classes[class.Name] = class
	}
	for _, claim := range c.Claims {
		g.w.claims = append(g.w.claims, &claim.Spec)
		for i := range claim.Spec.Devices.Requests {
			g.simplify(&claim.Spec.Devices.Requests[i])
		}
	}
	for _, slice := range c.Slices {
		if g.one(4) {
			g.odd(slice)
		}
	}
	if g.one(6) {
		g.miscount(pick(g, c.Slices...))
	}
	if g.one(6) {
		g.outdate(pick(g, c.Slices...))
	}
	slices.SortStableFunc(g.w.slices, func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Or(strings.Compare(a.Spec.Driver, b.Spec.Driver), strings.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name), strings.Compare(a.Name, b.Name))
	})
	g.addMappings(c.Classes)
	if g.one(3) {
		g.addExtended(c.Classes)
	}
	if g.one(6) {
		g.contend()
	}
	return g.w
}

// one is true one time of n.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// simplify makes most requests some that kueue counts.
func (g *generator) simplify(r *resourceapi.DeviceRequest) {
	if g.one(20) {
		return
	}
	if len(r.FirstAvailable) > 0 {
		s := r.FirstAvailable[0]
		r.FirstAvailable, r.Exactly = nil, &resourceapi.ExactDeviceRequest{
			DeviceClassName: s.DeviceClassName, Selectors: s.Selectors, AllocationMode: s.AllocationMode, Count: s.Count, Capacity: s.Capacity,
		}
	}
	e := r.Exactly
	if e.AllocationMode == resourceapi.DeviceAllocationModeAll {
		e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeExactCount, 1
	}
	e.AdminAccess = nil
	if g.one(40) {
		e.Count = pick[int64](g, 0, 20, math.MaxInt64/2+1, math.MaxInt64)
	}
	if g.one(10) {
		for name := range requested(e) {
			e.Capacity.Requests[name] = g.amount()
		}
	}
}

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

func (g *generator) amount() resource.Quantity {
	return resource.MustParse(pick(g, "0", "1", "3", "10", "1500m", "1n", "-2", "5Gi", "1000000000001", "9223372036854775807", "-9223372036854775808", "9300000000000000000", "8E", "1e30"))
}

// miscount has a pool say that it has another number of slices, mostly by all of its slices.
func (g *generator) miscount(of *resourceapi.ResourceSlice) {
	more, all := pick(g, int64(1), -1), !g.one(4)
	for _, slice := range g.w.slices {
		if slice == of || all && samePool(slice, of) {
			slice.Spec.Pool.ResourceSliceCount += more
		}
	}
}

// outdate adds an older version of a slice, which its driver has not deleted yet.
func (g *generator) outdate(slice *resourceapi.ResourceSlice) {
	old := slice.DeepCopy()
	old.Name += "-old"
	old.Spec.Pool.Generation--
	g.w.slices = append(g.w.slices, old)
}

func samePool(a, b *resourceapi.ResourceSlice) bool {
	return a.Spec.Driver == b.Spec.Driver && a.Spec.Pool.Name == b.Spec.Pool.Name
}

// odd changes what devices of a slice have to amounts that the API permits.
func (g *generator) odd(slice *resourceapi.ResourceSlice) {
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if !g.one(2) {
			continue
		}
		for name, capacity := range device.Capacity {
			capacity.Value = g.amount()
			if g.one(2) {
				capacity.RequestPolicy = g.policy()
			}
			device.Capacity[name] = capacity
		}
		for _, consumption := range device.ConsumesCounters {
			for name := range consumption.Counters {
				consumption.Counters[name] = resourceapi.Counter{Value: g.amount()}
			}
		}
	}
}

func (g *generator) policy() *resourceapi.CapacityRequestPolicy {
	some := func() *resource.Quantity { return pick(g, nil, ptr.To(g.amount()), ptr.To(g.amount())) }
	p := &resourceapi.CapacityRequestPolicy{Default: some()}
	switch g.IntN(3) {
	case 0:
		p.ValidValues = []resource.Quantity{g.amount(), g.amount(), g.amount()}
		slices.SortFunc(p.ValidValues, func(a, b resource.Quantity) int { return a.Cmp(b) })
	case 1:
		p.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: some(), Max: some(), Step: some()}
	}
	return p
}

// addMappings maps most classes, as kueue's configuration may: several classes to one resource, or one class to counters of several names.
func (g *generator) addMappings(classes []*resourceapi.DeviceClass) {
	counters, capacities := g.sources()
	for i, class := range classes {
		m := charge.Mapping{Resource: corev1.ResourceName(fmt.Sprint("quota-", i)), Classes: []string{class.Name}}
		switch n := g.IntN(10); {
		case n == 0:
			continue
		case n == 1 && i > 0 && len(g.w.mappings) > 0:
			last := &g.w.mappings[len(g.w.mappings)-1]
			last.Classes = append(last.Classes, class.Name)
			continue
		case n < 5 && len(counters) > 0:
			m.Sources = append(m.Sources, g.scoped(pick(g, counters...)))
			second := g.scoped(pick(g, counters...))
			switch {
			case second.Counter != m.Sources[0].Counter && g.one(2):
				g.w.mappings = append(g.w.mappings, charge.Mapping{Resource: m.Resource + "-too", Classes: m.Classes, Sources: []charge.Source{second}})
			case g.one(3):
				m.Sources = append(m.Sources, second)
			}
		case n < 9 && len(capacities) > 0:
			m.Sources = append(m.Sources, g.scoped(pick(g, capacities...)))
			if g.one(3) {
				m.Sources = append(m.Sources, g.scoped(pick(g, capacities...)))
			}
		}
		g.w.mappings = append(g.w.mappings, m)
	}
}

// contend has a claim ask for devices that several of its requests could have, of drivers of which not all are sources.
func (g *generator) contend() {
	claim := g.w.claims[0]
	claim.Devices.Requests = nil
	for i := range 2 + g.IntN(2) {
		expression := pick(g, "true", "true", `device.driver == "gpu.example.com"`, `device.driver == "nic.example.com"`, `has(device.attributes[device.driver].model)`)
		claim.Devices.Requests = append(claim.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint("request-", i), Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1 + g.Int64N(3),
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		}})
	}
	g.w.claims = g.w.claims[:1]
}

// scoped is a source of some of the devices, now and then.
func (g *generator) scoped(s charge.Source) charge.Source {
	if g.one(4) {
		s.Selector = pick(g, `device.driver == "gpu.example.com"`, `device.driver != "gpu.example.com"`, `device.attributes[device.driver].size() > 1`)
	}
	return s
}

// sources are all counters and capacities that devices have, in order.
func (g *generator) sources() (counters, capacities []charge.Source) {
	for _, slice := range g.w.slices {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			for _, consumption := range device.ConsumesCounters {
				for name := range consumption.Counters {
					counters = append(counters, charge.Source{Driver: slice.Spec.Driver, Counter: name})
				}
			}
			for name := range device.Capacity {
				capacities = append(capacities, charge.Source{Driver: slice.Spec.Driver, Capacity: name})
			}
		}
	}
	byName := func(a, b charge.Source) int {
		return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Counter, b.Counter), strings.Compare(string(a.Capacity), string(b.Capacity)))
	}
	slices.SortFunc(counters, byName)
	slices.SortFunc(capacities, byName)
	return slices.Compact(counters), slices.Compact(capacities)
}

// addExtended has containers ask for extended resources, of which some are those of classes.
func (g *generator) addExtended(classes []*resourceapi.DeviceClass) {
	names := []string{"example.com/gpu", "example.com/nic", "example.com/other"}
	for _, class := range classes {
		if !g.one(3) {
			class.Spec.ExtendedResourceName = ptr.To(pick(g, names[:2]...))
		}
		class.CreationTimestamp = metav1.NewTime(time.Unix(int64(g.IntN(2)), 0))
	}
	for i := range 1 + g.IntN(4) {
		container := corev1.Container{Name: fmt.Sprint("container-", i), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
		for range g.IntN(3) {
			amount := resource.MustParse("2")
			if g.one(8) {
				amount = g.amount()
			}
			name := pick(g, append(names, "cpu", "hugepages-2Mi", "kubernetes.io/thing", "deviceclass.resource.kubernetes.io/gpu")...)
			container.Resources.Requests[corev1.ResourceName(name)] = amount
		}
		if g.one(3) {
			g.w.pod.InitContainers = append(g.w.pod.InitContainers, container)
		} else {
			g.w.pod.Containers = append(g.w.pod.Containers, container)
		}
	}
}

// requested are the capacities that a request asks for.
func requested(e *resourceapi.ExactDeviceRequest) map[resourceapi.QualifiedName]resource.Quantity {
	if e.Capacity == nil {
		return nil
	}
	return e.Capacity.Requests
}
