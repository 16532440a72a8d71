// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package listers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/allocator/structured/listers"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

// The signatures are those of k8s.io/dynamic-resource-allocation/structured v0.31.
var (
	_ func(context.Context, []*resourceapi.ResourceClaim, listers.ClaimLister, resourcelisters.DeviceClassLister, resourcelisters.ResourceSliceLister) (*listers.Allocator, error) = listers.NewAllocator
	_ func(*listers.Allocator, context.Context, *corev1.Node) ([]*resourceapi.AllocationResult, error)                                                                             = (*listers.Allocator).Allocate
	_ func(*listers.Allocator) []*resourceapi.ResourceClaim                                                                                                                        = (*listers.Allocator).ClaimsToAllocate
	_ func(context.Context, resourcelisters.ResourceSliceLister, *corev1.Node) ([]*listers.Pool, error)                                                                            = listers.GatherPools
	_ fmt.Stringer                                                                                                                                                                 = listers.DeviceID{}
	_ fmt.Stringer                                                                                                                                                                 = listers.PoolID{}
)

type allocatedClaims struct {
	list []*resourceapi.ResourceClaim
	err  error
}

func (a allocatedClaims) ListAllAllocated() ([]*resourceapi.ResourceClaim, error) {
	return a.list, a.err
}

func indexer[T any](t testing.TB, objects []T) cache.Indexer {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, object := range objects {
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func slicesOf(t testing.TB, list []*resourceapi.ResourceSlice) resourcelisters.ResourceSliceLister {
	return resourcelisters.NewResourceSliceLister(indexer(t, list))
}

func newAllocator(t testing.TB, c *alloctest.Case) *listers.Allocator {
	t.Helper()
	classes := resourcelisters.NewDeviceClassLister(indexer(t, c.Classes))
	a, err := listers.NewAllocator(t.Context(), c.Claims, allocatedClaims{list: c.Allocated}, classes, slicesOf(t, c.Slices))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Generated clusters in an older version of the API have the answers of the present version.
func TestTranslatedClustersHaveEqualAnswers(t *testing.T) {
	satisfiable, none, failed := 0, 0, 0
	for seed := range uint64(600) {
		c := clustergen.Generate(seed, clustergen.Default)
		c.Features = allocator.AllFeatures()
		old := newAllocator(t, c)
		if !slices.Equal(old.ClaimsToAllocate(), c.Claims) {
			t.Fatal("claims are not those of the call")
		}
		for _, node := range c.Nodes {
			c.Node = node.Name
			want := peer.Structured(structured.NewAllocator)(t.Context(), c)
			results, err := old.Allocate(t.Context(), node)
			var got []resourceapi.AllocationResult
			for _, result := range results {
				got = append(got, *result)
			}
			switch {
			case want.Err != nil && !want.NodeOnly:
				failed++
				if err == nil {
					t.Errorf("seed %d, node %s: no error, want %v", seed, node.Name, want.Err)
				}
			case err != nil:
				t.Errorf("seed %d, node %s: %v", seed, node.Name, err)
			case want.Results == nil:
				none++
				if results != nil {
					t.Errorf("seed %d, node %s: allocated, and not by the other form", seed, node.Name)
				}
			default:
				satisfiable++
				if diff := oracle.Equal(want.Results, got); diff != "" {
					t.Errorf("seed %d, node %s: %s", seed, node.Name, diff)
				}
			}
		}
	}
	if satisfiable < 100 || none < 100 || failed == 0 {
		t.Errorf("too little was compared: %d satisfiable, %d not, %d errors", satisfiable, none, failed)
	}
}

// A share of which no capacity is recorded has drawn on the counters of its device.
func TestShareWithoutCapacity(t *testing.T) {
	counters := map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("4")}}
	sets, devices := slice("counters", "p", 1, 2, "a"), slice("devices", "p", 1, 2, "a", "shared", "whole")
	sets.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: counters}}
	for i := range devices.Spec.Devices {
		devices.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: counters}}
	}
	devices.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
	devices.Spec.Devices[1].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"whole": {BoolValue: ptr.To(true)}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "whole"}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: `"whole" in device.attributes["` + devices.Spec.Driver + `"]`}},
	}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "whole", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "holder"}}
	holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: devices.Spec.Driver, Pool: "p", Device: "shared", ShareID: ptr.To(types.UID("share"))},
	}}}
	for _, allocated := range [][]*resourceapi.ResourceClaim{nil, {holder}} {
		a := newAllocator(t, &alloctest.Case{
			Classes: []*resourceapi.DeviceClass{class}, Slices: []*resourceapi.ResourceSlice{sets, devices},
			Claims: []*resourceapi.ResourceClaim{claim}, Allocated: allocated,
		})
		results, err := a.Allocate(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		if err != nil || (results == nil) != (allocated != nil) {
			t.Errorf("%d claims allocated: %v, %v", len(allocated), results, err)
		}
	}
}

func TestListersThatFail(t *testing.T) {
	cause := errors.New("the cache is not synced")
	_, err := listers.NewAllocator(t.Context(), nil, allocatedClaims{err: cause}, nil, slicesOf(t, nil))
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "list allocated claims") {
		t.Errorf("got %v", err)
	}
}

func slice(name, pool string, generation, count int64, node string, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count},
	}}
	if node != "" {
		s.Spec.NodeName = ptr.To(node)
	}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: d})
	}
	return s
}

func TestGatherPools(t *testing.T) {
	everywhere := slice("c", "c", 1, 2, "", "d")
	everywhere.Spec.AllNodes = ptr.To(true)
	perDevice := slice("d", "d", 1, 1, "", "here", "there")
	perDevice.Spec.PerDeviceNodeSelection = ptr.To(true)
	perDevice.Spec.Devices[0].NodeName, perDevice.Spec.Devices[1].NodeName = ptr.To("worker"), ptr.To("other")
	lister := slicesOf(t, []*resourceapi.ResourceSlice{
		slice("a-old", "a", 1, 1, "worker", "d"), slice("a-2", "a", 2, 3, "worker", "d"), slice("a-1", "a", 2, 3, "worker", "e"),
		slice("a-3", "a", 2, 3, "other", "f"), slice("b", "b", 1, 1, "other", "d"), everywhere, perDevice,
	})
	for node, want := range map[string]string{
		"worker": "gpu.example.com/a false [a-1 a-2]; gpu.example.com/c true [c]; gpu.example.com/d false [d]",
		"other":  "gpu.example.com/a false [a-3]; gpu.example.com/b false [b]; gpu.example.com/c true [c]; gpu.example.com/d false [d]",
		"new":    "gpu.example.com/c true [c]",
	} {
		gathered, err := listers.GatherPools(t.Context(), lister, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, p := range gathered {
			var names []string
			for _, s := range p.Slices {
				names = append(names, s.Name)
			}
			parts = append(parts, fmt.Sprint(p.PoolID, " ", p.IsIncomplete, " ", names))
		}
		if got := strings.Join(parts, "; "); got != want {
			t.Errorf("%s:\n%s, want\n%s", node, got, want)
		}
	}
}
