// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scoring

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// cluster is one node with devices of two drivers, and the claims that hold some of them.
type cluster struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	node   *corev1.Node
	slices []*resourceapi.ResourceSlice
	claims []*resourceapi.ResourceClaim
	core   *allocator.Allocator
}

func (c *cluster) ResourceClaims() fwk.ResourceClaimTracker                     { return c }
func (c *cluster) ResourceSlices() fwk.ResourceSliceLister                      { return c }
func (c *cluster) List() ([]*resourceapi.ResourceClaim, error)                  { return c.claims, nil }
func (c *cluster) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }
func (c *cluster) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return c.slices, nil
}

// classes has one class for all devices.
type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }
func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// newCluster has whole devices and partitions of few counters, some of which may be shared.
func newCluster(random *rand.Rand) *cluster {
	c := &cluster{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, core: allocator.New(allocator.Options{Features: allocator.AllFeatures()})}
	for _, driver := range []string{"a", "b"} {
		slice := sliceOf(driver)
		for i := range 2 + random.IntN(5) {
			device := resourceapi.Device{Name: fmt.Sprint(i)}
			device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"id": {StringValue: ptr.To(driver + device.Name)}}
			if random.IntN(3) > 0 {
				device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
					CounterSet: fmt.Sprint("set-", random.IntN(2)), Counters: map[string]resourceapi.Counter{"c": {Value: *resource.NewQuantity(1+random.Int64N(3), resource.DecimalSI)}},
				}}
			}
			if random.IntN(5) == 0 {
				device.AllowMultipleAllocations = ptr.To(true)
			}
			slice.Spec.Devices = append(slice.Spec.Devices, device)
		}
		c.slices = append(c.slices, countersOf(driver), slice)
	}
	return c
}

func sliceOf(driver string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	slice.Spec.Driver, slice.Spec.NodeName = driver, ptr.To("n")
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 2}
	return slice
}

func countersOf(driver string) *resourceapi.ResourceSlice {
	slice := sliceOf(driver)
	slice.Name += "-counters"
	for i := range 2 {
		slice.Spec.SharedCounters = append(slice.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprint("set-", i), Counters: map[string]resourceapi.Counter{"c": {Value: resource.MustParse("4")}},
		})
	}
	return slice
}

// claimFor asks for devices of which the expression holds.
func claimFor(name, expression string, count int64) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
	}}}
	return claim
}

// assign returns what the claims get in a state, nil if they do not get it.
func (c *cluster) assign(t *testing.T, state *pools.State, claims ...*resourceapi.ResourceClaim) *allocator.Assignment {
	t.Helper()
	problem, err := c.core.Compile(claims, classes{})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := problem.Allocate(context.Background(), state, c.node)
	if err != nil {
		t.Fatal(err)
	}
	assignment, _ := outcome.(*allocator.Assignment)
	return assignment
}

// holds reports whether a claim holds a device, or a share of one.
func holds(claims []*resourceapi.ResourceClaim, driver, device string) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(result resourceapi.DeviceRequestAllocationResult) bool {
			return result.Driver == driver && result.Device == device
		})
	})
}

// outlook is OutlookOf by asking for each device whether a claim would get it. Nobody gets a device
// as a whole that somebody has a share of.
func (c *cluster) outlook(t *testing.T, given []*resourceapi.ResourceClaim) NodeDevices {
	t.Helper()
	observe := func(claims []*resourceapi.ResourceClaim) *pools.State {
		view, err := model.New(&cluster{slices: c.slices, claims: claims}, allocator.AllFeatures().PoolGates()).Observe()
		if err != nil {
			t.Fatal(err)
		}
		return view.State
	}
	later := slices.Concat(c.claims, given)
	before, after := observe(c.claims), observe(later)
	var o NodeDevices
	for _, slice := range c.slices {
		driver := slice.Spec.Driver
		if !slices.ContainsFunc(slice.Spec.Devices, func(device resourceapi.Device) bool { return holds(given, driver, device.Name) }) {
			continue
		}
		for _, device := range slice.Spec.Devices {
			wanted := claimFor("probe", fmt.Sprintf("device.driver == %q && device.attributes[%q].id == %q", driver, driver, driver+device.Name), 1)
			o.total++
			o.used += count(holds(later, driver, device.Name))
			if holds(c.claims, driver, device.Name) || c.assign(t, before, wanted) == nil {
				continue
			}
			o.free++
			o.wasted += count(!holds(given, driver, device.Name) && c.assign(t, after, wanted) == nil)
		}
	}
	return o
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// TestNodeDevices gives devices of one driver or of both to claims, and compares with asking for each
// device.
func TestNodeDevices(t *testing.T) {
	compared, wasting := 0, 0
	for seed := range uint64(250) {
		random := rand.New(rand.NewPCG(seed, 13))
		c := newCluster(random)
		observed := model.New(c, allocator.AllFeatures().PoolGates())
		for step := range 4 {
			view, err := observed.Observe()
			if err != nil {
				t.Fatal(err)
			}
			wanted := []*resourceapi.ResourceClaim{claimFor(fmt.Sprint("x", step), `device.driver == "a"`, 1+random.Int64N(2))}
			if random.IntN(2) == 0 {
				wanted = append(wanted, claimFor(fmt.Sprint("y", step), "true", 1))
			}
			assignment := c.assign(t, view.State, wanted...)
			if assignment == nil {
				break
			}
			var claims []*claimstate.Claim
			var given []*resourceapi.ResourceClaim
			results := assignment.Results()
			for i, claim := range wanted {
				claims = append(claims, &claimstate.Claim{Object: claim})
				given = append(given, claimstate.WithAllocation(claim, &results[i]))
			}
			got, err := NodeDevicesAfter(view, c.node, claims, assignment)
			if err != nil {
				t.Fatal(err)
			}
			if want := c.outlook(t, given); got != want {
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, step, got, want)
			}
			compared, wasting = compared+1, wasting+int(min(got.wasted, 1))
			c.claims = append(c.claims, given...)
		}
	}
	if compared < 300 || wasting < 50 {
		t.Errorf("%d outlooks compared, %d with waste: the test shows little", compared, wasting)
	}
}

func TestScales(t *testing.T) {
	o := NodeDevices{total: 8, used: 2, free: 5, wasted: 1}
	if got := fmt.Sprint(o.Usage(), o.Thrift(), Share(2, 3), Share(1, 0)); got != "250 800 666 0" {
		t.Errorf("usage, thrift, two thirds and a part of nothing are %s", got)
	}
	if got := fmt.Sprint(NodeDevices{}.Usage(), NodeDevices{}.Thrift()); got != "0 1000" {
		t.Errorf("usage and thrift of nothing are %s", got)
	}
}
