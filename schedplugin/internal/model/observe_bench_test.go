// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// BenchmarkObserve is looking at a manager that does not tell what changes, which is nothing,
// in an order that stays the same or does not.
func BenchmarkObserve(b *testing.B) {
	for _, shuffled := range []bool{false, true} {
		b.Run(fmt.Sprintf("claims=40000/shuffled=%v", shuffled), func(b *testing.B) {
			c := newCluster()
			var list []*resourceapi.ResourceClaim
			for i := range 40_000 {
				list = append(list, c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), strconv.Itoa(i%devices)))
			}
			m := New(inOrder{c, &list}, pools.Gates{})
			if _, err := m.Observe(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if shuffled {
					b.StopTimer()
					rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
					b.StartTimer()
				}
				if _, err := m.Observe(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkObserveFirst is the first look at a manager, whose claims have devices of few pools or of many. It lists them in the
// order in which they were made, which is that of pools, or in that of a map, as managers do. Where they are scattered, they were
// made in another order than that of pools. It has the user CPU time, too, which other programs on the machine change less.
func BenchmarkObserveFirst(b *testing.B) {
	for _, test := range []struct {
		pools, devices, claims, results int
		listed                          string
	}{
		{100, 256, 6000, 4, "made"}, // few pools of many devices
		{100, 256, 6000, 4, "map"},
		{3000, 8, 20_000, 1, "made"},
		{3000, 8, 20_000, 1, "map"},
		{3000, 8, 20_000, 1, "scattered"},
	} {
		b.Run(fmt.Sprintf("pools=%d/devices=%d/claims=%d/results=%d/listed=%s", test.pools, test.devices, test.claims, test.results, test.listed), func(b *testing.B) {
			c := newCluster()
			c.slices = nil
			for p := range test.pools {
				slice := newCluster().slices[0]
				slice.Name = fmt.Sprint("s", p)
				slice.Spec.Pool.Name = fmt.Sprint("p", p)
				slice.Spec.NodeName = ptr.To(fmt.Sprint("n", p))
				slice.Spec.Devices = make([]resourceapi.Device, test.devices)
				for i := range slice.Spec.Devices {
					slice.Spec.Devices[i].Name = strconv.Itoa(i)
				}
				c.slices = append(c.slices, slice)
			}
			made := rand.New(rand.NewPCG(1, 1)).Perm(test.claims)
			if test.listed != "scattered" {
				slices.Sort(made)
			}
			var list []*resourceapi.ResourceClaim
			for _, i := range made {
				claim := c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), "0")
				claim.Status.Allocation.Devices.Results = make([]resourceapi.DeviceRequestAllocationResult, test.results)
				for r := range test.results {
					at := i*test.results + r
					claim.Status.Allocation.Devices.Results[r] = resourceapi.DeviceRequestAllocationResult{
						Request: "r", Driver: "d", Pool: fmt.Sprint("p", at/test.devices), Device: strconv.Itoa(at % test.devices),
					}
				}
				list = append(list, claim)
			}
			if test.listed != "made" {
				list, _ = c.List()
			}
			b.ReportAllocs()
			before := userTime(b)
			for b.Loop() {
				if _, err := New(inOrder{c, &list}, pools.Gates{}).Observe(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(userTime(b)-before)/float64(b.N), "user-ns/op")
		})
	}
}

// userTime is the user CPU time that the process has used.
func userTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// BenchmarkObserveCopies is looking at a manager that has copies of all claims, as that of a simulator which starts
// anew.
func BenchmarkObserveCopies(b *testing.B) {
	c := newCluster()
	list := make([]*resourceapi.ResourceClaim, 7000)
	for i := range list {
		list[i] = c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), strconv.Itoa(i%devices))
	}
	m := New(inOrder{c, &list}, pools.Gates{})
	for b.Loop() {
		b.StopTimer()
		for i := range list {
			list[i] = list[i].DeepCopy()
		}
		b.StartTimer()
		if _, err := m.Observe(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFreedSince is what it costs to refuse a pod: to look whether devices came free of which no event came yet. Half of the claims have none.
func BenchmarkFreedSince(b *testing.B) {
	c := newCluster()
	var list []*resourceapi.ResourceClaim
	for i := range 10_000 {
		device := ""
		if i%2 == 0 {
			device = strconv.Itoa(i % devices)
		}
		list = append(list, c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), device))
	}
	m := New(inOrder{c, &list}, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		b.Fatal(err)
	}
	view, err := m.Observe()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if freed, err := m.FreedSince(view); freed || err != nil {
			b.Fatal(freed, err)
		}
	}
}

// inOrder lists claims in a certain order.
type inOrder struct {
	*cluster
	list *[]*resourceapi.ResourceClaim
}

func (o inOrder) ResourceClaims() fwk.ResourceClaimTracker    { return o }
func (o inOrder) List() ([]*resourceapi.ResourceClaim, error) { return *o.list, nil }

func firstPool(view *View) pools.Pool {
	for pool := range view.State.Snapshot().Pools() {
		return pool
	}
	return pools.Pool{}
}
