// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/pools"
)

// mappingsOf are mappings about all that a case has: each class, each counter and each capacity by itself, and a sum of them.
func mappingsOf(c *alloctest.Case) []Mapping {
	var mappings []Mapping
	var classes []string
	for _, class := range c.Classes {
		mappings, classes = append(mappings, ByClass(class.Name)), append(classes, class.Name)
	}
	var all []Source
	for _, slice := range c.Slices {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			for _, consumption := range device.ConsumesCounters {
				for name := range consumption.Counters {
					all = append(all, Source{Driver: slice.Spec.Driver, Counter: name})
				}
			}
			for name := range device.Capacity {
				all = append(all, Source{Driver: slice.Spec.Driver, Capacity: name})
			}
		}
	}
	slices.SortFunc(all, func(a, b Source) int {
		return slices.Compare([]string{a.Driver, a.Counter, string(a.Capacity)}, []string{b.Driver, b.Counter, string(b.Capacity)})
	})
	all = slices.Compact(all)
	for _, source := range all {
		name := corev1.ResourceName(source.Driver + " " + source.Counter + string(source.Capacity))
		mappings = append(mappings, Mapping{Resource: name, Classes: classes, Sources: []Source{source}})
	}
	return append(mappings, Mapping{Resource: "sum", Classes: classes, Sources: all})
}

// count is what devices count, in the most direct way.
func count(m Mapping, list []oracle.Taken) resource.Quantity {
	var sum resource.Quantity
	drawn := make(map[*resourceapi.Device]bool)
	for _, t := range list {
		if t.Admin || !slices.Contains(m.Classes, t.Class) {
			continue
		}
		if len(m.Sources) == 0 {
			sum.Add(*resource.NewQuantity(1, resource.DecimalSI))
		}
		for _, s := range m.Sources {
			if s.Driver != t.Driver {
				continue
			}
			for _, consumption := range t.Device.ConsumesCounters {
				if c, found := consumption.Counters[s.Counter]; found && !drawn[t.Device] {
					sum.Add(c.Value)
				}
			}
			if t.Consumed != nil {
				sum.Add(t.Consumed[s.Capacity])
			} else {
				sum.Add(t.Device.Capacity[s.Capacity].Value)
			}
		}
		drawn[t.Device] = true
	}
	return sum
}

// seen are the least and the most of what answers count.
type seen struct{ least, most *resource.Quantity }

func (s *seen) add(q resource.Quantity) {
	if s.least == nil || q.Cmp(*s.least) < 0 {
		s.least = &q
	}
	if s.most == nil || q.Cmp(*s.most) > 0 {
		s.most = &q
	}
}

// alone reports whether a case is one of which both ends are promised to be taken.
func alone(c *alloctest.Case) bool {
	d := &c.Claims[0].Spec.Devices
	return len(d.Requests) == 1 && len(d.Constraints) == 0 && !slices.ContainsFunc(c.Slices, func(s *resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 })
	})
}

// TestLikeEnumeration compares the bounds of claims with all answers that there are, and with what the allocator gives while
// other claims hold devices. Allocated claims must count exactly what they have.
func TestLikeEnumeration(t *testing.T) {
	const cases = 2500
	var compared, reached, tight, loose, given int
	for seed := range cases {
		c := clustergen.Generate(uint64(seed), []clustergen.Profile{clustergen.Pairs, clustergen.Default, clustergen.Shares}[seed%3])
		used := c.Allocated
		c.Allocated, c.Claims = nil, c.Claims[:1]
		mappings := mappingsOf(c)
		snapshot := pools.Build(c.Features.PoolGates(), c.Slices)
		cluster := NewCluster(c.Features, snapshot, c.Nodes, allocator.ClassMap(c.Classes...))
		got, err := cluster.Of(t.Context(), c.Claims[0], mappings)
		if err != nil {
			continue // the claim cannot be compiled
		}
		ends := make([]seen, len(mappings))
		answers, known := 0, got.Err == nil && got.Undecided == 0
		for _, node := range c.Nodes {
			c.Node = node.Name
			known = oracle.Every(c, func(list []oracle.Taken) {
				answers++
				for k, m := range mappings {
					ends[k].add(count(m, list))
				}
			}) && known
		}
		if known && (answers > 0) != (got.Fits > 0) {
			t.Errorf("%s: there are %d answers, and %d nodes on which the claim fits", c.Name, answers, got.Fits)
		}
		given += comparesAllocated(t, c, used, cluster, mappings, got)
		if !known || answers == 0 {
			continue
		}
		compared++
		for k, m := range mappings {
			b := got.Of[m.Resource]
			if b.Least.Cmp(*ends[k].least) > 0 || b.Most.Cmp(*ends[k].most) < 0 {
				t.Errorf("%s: %s: %s to %s, but answers take %s to %s", c.Name, m.Resource, &b.Least, &b.Most, ends[k].least, ends[k].most)
			}
			both := b.Least.Cmp(*ends[k].least) == 0 && b.Most.Cmp(*ends[k].most) == 0
			switch {
			case alone(c) && !both:
				t.Errorf("%s: %s: %s to %s, but answers of this claim alone take %s to %s", c.Name, m.Resource, &b.Least, &b.Most, ends[k].least, ends[k].most)
			case alone(c):
				reached++
			case both:
				tight++
			default:
				loose++
			}
		}
	}
	t.Logf("%d cases compared; bounds: %d are promised to be taken, %d others are, %d are not; %d allocations", compared, reached, tight, loose, given)
	if compared < cases/6 || reached < cases/6 || given < cases/6 || loose > tight {
		t.Error("too few cases were compared, or too many bounds are loose")
	}
}

// comparesAllocated allocates the claim on each node as it is in use, and compares what it has then. It returns how many times.
func comparesAllocated(t *testing.T, c *alloctest.Case, used []*resourceapi.ResourceClaim, cluster *Cluster, mappings []Mapping, bounds Charge) (given int) {
	problem, err := cluster.allocator.Compile(c.Claims, cluster.classes)
	if err != nil {
		t.Fatal(err)
	}
	for _, claims := range [][]*resourceapi.ResourceClaim{used, nil} {
		state := pools.NewState(cluster.snapshot)
		for _, claim := range claims {
			if next, err := state.Assume(claim); err == nil {
				state = next
			}
		}
		for _, node := range c.Nodes {
			outcome, err := problem.Allocate(context.Background(), state, node)
			assignment, ok := outcome.(*allocator.Assignment)
			if err != nil || !ok {
				continue
			}
			given++
			claim := c.Claims[0].DeepCopy()
			claim.Status.Allocation = &assignment.Results()[0]
			got, err := cluster.Of(t.Context(), claim, mappings)
			if err != nil {
				t.Fatal(err)
			}
			list, ambiguous := takenBy(cluster, claim)
			for _, m := range mappings {
				b, all, want := got.Of[m.Resource], bounds.Of[m.Resource], count(m, list)
				if ambiguous {
					if b.Least.Cmp(want) > 0 || b.Most.Cmp(want) < 0 {
						t.Errorf("%s: %s: an allocated claim counts %s to %s, may have %s", c.Name, m.Resource, &b.Least, &b.Most, &want)
					}
					continue // it is not known which device it has
				}
				if b.Least.Cmp(want) != 0 || b.Most.Cmp(want) != 0 {
					t.Errorf("%s: %s: an allocated claim counts %s to %s, has %s", c.Name, m.Resource, &b.Least, &b.Most, &want)
				}
				if want.Cmp(all.Least) < 0 || want.Cmp(all.Most) > 0 {
					t.Errorf("%s: %s: an allocated claim has %s, not within %s to %s", c.Name, m.Resource, &want, &all.Least, &all.Most)
				}
			}
		}
	}
	return given
}

// takenBy reads what a claim has. It is ambiguous if several devices have the name of one of them.
func takenBy(cluster *Cluster, claim *resourceapi.ResourceClaim) (list []oracle.Taken, ambiguous bool) {
	classes := make(map[string]string)
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly != nil {
			classes[r.Name] = r.Exactly.DeviceClassName
		}
		for _, sub := range r.FirstAvailable {
			classes[r.Name+"/"+sub.Name] = sub.DeviceClassName
		}
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		pool, _ := cluster.snapshot.Pool(pools.PoolID{Driver: result.Driver, Name: result.Pool})
		taken := oracle.Taken{Class: classes[result.Request], Admin: ptr.Deref(result.AdminAccess, false), Driver: result.Driver}
		for device := range pool.Lookup(result.Device) {
			ambiguous = ambiguous || taken.Device != nil
			taken.Device = device.Object()
		}
		if result.ShareID != nil {
			taken.Consumed = map[resourceapi.QualifiedName]resource.Quantity{}
			for name, q := range result.ConsumedCapacity {
				taken.Consumed[name] = q
			}
		}
		list = append(list, taken)
	}
	return list, ambiguous
}
