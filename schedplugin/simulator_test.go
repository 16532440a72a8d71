// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// simulated is the SharedDRAManager of a simulator, such as an autoscaler's. It hands out its
// own objects, and changes them in place. Allocations are in its claims at once.
type simulated struct {
	slices  []*resourceapi.ResourceSlice
	claims  map[string]*resourceapi.ResourceClaim
	classes map[string]*resourceapi.DeviceClass
}

func (s *simulated) ResourceClaims() fwk.ResourceClaimTracker     { return simulatedClaims{s} }
func (s *simulated) ResourceSlices() fwk.ResourceSliceLister      { return simulatedSlices{s} }
func (s *simulated) DeviceClasses() fwk.DeviceClassLister         { return simulatedClasses{s} }
func (s *simulated) DeviceClassResolver() fwk.DeviceClassResolver { return simulatedClasses{s} }

type simulatedSlices struct{ *simulated }

func (s simulatedSlices) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return s.slices, nil
}

type simulatedClasses struct{ *simulated }

func (s simulatedClasses) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (s simulatedClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := s.classes[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("no class %s", name)
}

func (s simulatedClasses) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass { return nil }

type simulatedClaims struct{ *simulated }

func (s simulatedClaims) List() ([]*resourceapi.ResourceClaim, error) {
	var list []*resourceapi.ResourceClaim
	for _, claim := range s.claims {
		list = append(list, claim)
	}
	return list, nil
}

func (s simulatedClaims) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if claim := s.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, name)
}

func (s simulatedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return nil, nil
}
func (s simulatedClaims) GatherAllocatedState() (*structured.AllocatedState, error)    { return nil, nil }
func (s simulatedClaims) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }
func (s simulatedClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool       { return false }
func (s simulatedClaims) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error     { return nil }
func (s simulatedClaims) AssumedClaimRestore(string, string)                           {}
func (s simulatedClaims) SignalClaimPendingAllocation(_ types.UID, allocated *resourceapi.ResourceClaim) error {
	s.claims[allocated.Name].Status = allocated.Status
	return nil
}

// simulate makes a framework as an autoscaler does, with the configuration of dray-scheduler
// and a handle of its own: nobody starts the informers, and there is no queue.
func simulate(t *testing.T, dra fwk.SharedDRAManager, snapshot fwk.SharedLister) framework.Framework {
	t.Helper()
	raw, err := os.ReadFile("deploy/chart/base/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoded, _, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := Registry()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	simulator, err := frameworkruntime.NewFramework(ctx, registry, &decoded.(*config.KubeSchedulerConfiguration).Profiles[0],
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(dra),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); frameworkruntime.WaitForShutdown(simulator) })
	return simulator
}

// In a simulator states are cloned, claims change in place, and nodes come and go.
func TestInSimulator(t *testing.T) {
	ctx := t.Context()
	dra := &simulated{
		slices:  []*resourceapi.ResourceSlice{gpus("a", 1), gpus("b", 2)},
		claims:  map[string]*resourceapi.ResourceClaim{"one": gpuClaim("one", 1), "two": gpuClaim("two", 2), "other": gpuClaim("other", 1)},
		classes: map[string]*resourceapi.DeviceClass{"gpu": gpuClass()},
	}
	low := withPriority(podWith("low", "other"), -1)
	low.Spec.NodeName = "a"
	snapshot := internalcache.NewSnapshot([]*corev1.Pod{low}, []*corev1.Node{roomy("a"), roomy("b")})
	simulator := simulate(t, dra, snapshot)
	// fits is what an autoscaler asks.
	fits := func(pod *corev1.Pod, node string) (fwk.CycleState, *fwk.Status) {
		t.Helper()
		state := fwk.CycleState(framework.NewCycleState())
		if _, status, _ := simulator.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
			return state, status
		}
		state = state.Clone()
		nodeInfo, err := snapshot.Get(node)
		if err != nil {
			t.Fatal(err)
		}
		return state, simulator.RunFilterPlugins(ctx, state, pod, nodeInfo)
	}
	one, two := podWith("one", "one"), podWith("two", "two")
	state, status := fits(one, "a")
	expect(t, status, fwk.Success, "")
	expect(t, simulator.RunReservePluginsReserve(ctx, state, one, "a"), fwk.Success, "")
	if got := devicesOf(dra.claims["one"]); len(got) != 1 || got[0] != "a/gpu-0" {
		t.Errorf("devices %v", got)
	}
	if _, status := fits(podWith("p", "other"), "a"); status.IsSuccess() {
		t.Error("a device was given to two claims")
	}
	_, status = fits(two, "b")
	expect(t, status, fwk.Success, "")
	// In place: the pod is unscheduled, then its claim has other devices, then it is gone.
	dra.claims["one"].Status = resourceapi.ResourceClaimStatus{}
	_, status = fits(podWith("p", "other"), "a")
	expect(t, status, fwk.Success, "")
	dra.claims["one"].Status.Allocation = held(gpuClaim("x", 1), "b", "gpu-1").Status.Allocation
	if _, status := fits(two, "b"); status.IsSuccess() {
		t.Error("a device was given to two claims")
	}
	dra.claims["one"].Status.Allocation.Devices = held(gpuClaim("x", 1), "a", "gpu-0").Status.Allocation.Devices
	_, status = fits(two, "b")
	expect(t, status, fwk.Success, "")
	// A pod of low priority has what is wanted. Nobody knows of nominations.
	dra.claims["other"].Status = reservedBy(held(gpuClaim("other", 1), "a", "gpu-0"), low).Status
	delete(dra.claims, "one")
	dra.claims["high"] = gpuClaim("high", 1)
	_, status = fits(podWith("high", "high"), "a")
	expect(t, status, fwk.Unschedulable, "request gpus wants 1 device: none left (in use)")
	// A node comes, and its devices with it.
	dra.slices = append(dra.slices, gpus("c", 2))
	c := framework.NewNodeInfo()
	c.SetNode(roomy("c"))
	if state, status = fits(two, "b"); !status.IsSuccess() {
		t.Fatal(status)
	}
	expect(t, simulator.RunFilterPlugins(ctx, state, two, c), fwk.Success, "")
	dra.slices = dra.slices[:2]
	if state, status = fits(two, "b"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if simulator.RunFilterPlugins(ctx, state, two, c).IsSuccess() {
		t.Error("the devices of a node that is gone were given away")
	}
}
