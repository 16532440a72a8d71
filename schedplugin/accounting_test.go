// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/nodeallocatable"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// taking has each device of a slice stand for two CPUs.
func taking(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{
			corev1.ResourceCPU: {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse("2"))}},
		}
	}
	return slice
}

func withCPUs(name string) *corev1.Node {
	n := roomy(name)
	n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4")
	return n
}

func wantingCPUs(pod *corev1.Pod, cpus string) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	return pod
}

// takenBy is what the status of a pod says of the CPUs that its devices take.
func takenBy(pod *corev1.Pod) string {
	var list []string
	for _, status := range pod.Status.NodeAllocatableResourceClaimStatuses {
		for _, mapping := range status.Mapping {
			list = append(list, fmt.Sprintf("%s: %s %s", status.ResourceClaimName, mapping.Name, mapping.Quantity))
		}
	}
	return strings.Join(list, ", ")
}

// A whole scheduler counts what devices take of their node: for the pod, for other pods, as soon as it is assumed,
// and until it is gone.
func TestNodeAllocatableResources(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.DRANodeAllocatableResources: true,
	})
	r, err := newScheduler(t, dray, withCPUs("a"), gpuClass(), taking(gpus("a", 6)), gpuClaim("one", 1), gpuClaim("two", 2), gpuClaim("three", 3))
	r.must(err)
	r.run()
	r.create(wantingCPUs(podWith("one", "one"), "1"))
	r.waitFor(time.Minute, "one")
	if got, want := takenBy(r.pod("one")), "one: cpu 2"; got != want {
		t.Errorf("the status says %q, want %q", got, want)
	}
	r.create(wantingCPUs(podWith("plain"), "2"), podWith("two", "two"), podWith("three", "three"))
	for name, want := range map[string]string{"plain": "1 Insufficient cpu", "two": "1 " + refusal.Short + "Insufficient cpu", "three": "1 " + refusal.Short + "Insufficient cpu"} {
		r.waitForRejection(name)
		if got := r.conditionOf(name); !strings.Contains(got, want) {
			t.Errorf("pod %s: %q, want %q", name, got, want)
		}
	}
	r.must(r.client.CoreV1().Pods("default").Delete(r.ctx, "plain", metav1.DeleteOptions{}))
	r.must(r.client.CoreV1().Pods("default").Delete(r.ctx, "one", metav1.DeleteOptions{}))
	r.waitFor(time.Minute, "two")
	if got := r.pod("three").Spec.NodeName; got != "" {
		t.Errorf("a pod whose devices take 6 of 4 CPUs is on node %s", got)
	}
	r.updateNode(registering("cpu", 10))
	r.waitFor(time.Minute, "three")
}

// accountingWorld has the feature on.
func accountingWorld(t *testing.T, groups []*schedulingapi.PodGroup, objects ...runtime.Object) *world {
	features := everything
	features.EnableDRANodeAllocatableResources, features.EnablePodLevelResources = true, true
	w := newWorld(t, setting{features: features, groups: groups, objects: append(objects, gpuClass())})
	for i, info := range w.nodes { // with what is allocatable
		again := framework.NewNodeInfo()
		again.SetNode(info.Node())
		w.nodes[i] = again
	}
	return w
}

func (a *attempt) accounted(node string) []corev1.NodeAllocatableResourceClaimStatus {
	return dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(klog.Background(), a.state, node)
}

// Accounts of what-ifs are not published, and pods whose devices take nothing have none.
func TestWhatIfsDoNotPublishAccounts(t *testing.T) {
	w := accountingWorld(t, nil, withCPUs("a"), withCPUs("b"), taking(gpus("a", 1)), gpus("b", 1), gpuClaim("wanted", 1), gpuClaim("other", 1))
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(1), fwk.Success, "")
	if _, err := a.state.Read(dynamicresources.Name); !errors.Is(err, fwk.ErrNotFound) {
		t.Errorf("a device that takes nothing leaves a state: %v", err)
	}
	c, err := cycleOf(a.state)
	if err != nil {
		t.Fatal(err)
	}
	open, asked := c.accounts, 0
	c.accounts = func() (*nodeallocatable.Accounts, *fwk.Status) { asked++; return open() }
	clone := &attempt{world: w, pod: a.pod, state: a.state.Clone()}
	expect(t, w.plugin.AddPod(w.ctx, clone.state, clone.pod, clone.wrap(podWith("n", "other")), w.nodes[1]), fwk.Success, "")
	expect(t, clone.filter(0), fwk.Success, "")
	if clone.accounted("a") != nil || asked != 0 {
		t.Error("a what-if has accounts in common with the cycle, or is published")
	}
	expect(t, a.filter(0), fwk.Success, "")
	if asked != 1 {
		t.Errorf("the accounts of the cycle were asked for %d times", asked)
	}
	if got := a.accounted("a"); len(got) != 1 || got[0].ResourceClaimName != "wanted" {
		t.Errorf("accounts %v", got)
	}
	if got := a.accounted("b"); got != nil {
		t.Errorf("accounts of the other node: %v", got)
	}
}

// A claim whose device stands for CPUs cannot be shared, neither with a pod that has it nor with one of the group.
func TestClaimsForNodeResourcesAreNotShared(t *testing.T) {
	const shared = refusal.Short + "node allocatable resource claim shared has a mapped device and cannot be shared across pods"
	other := podWith("other", "shared")
	w := accountingWorld(t, nil, withCPUs("a"), taking(gpus("a", 1)), reservedBy(held(gpuClaim("shared", 1), "a", "gpu-0"), other))
	a := w.attempt(podWith("p", "shared"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, shared)
	a = w.attempt(other)
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")

	w = accountingWorld(t, []*schedulingapi.PodGroup{groupWithClaim()}, withCPUs("a"), taking(gpus("a", 1)), gpuClaim("shared", 1))
	group := framework.NewCycleState()
	first, _ := together(w, group, podWith("first", "shared"))
	_, status := first.reserve()
	expect(t, status, fwk.Success, "")
	second, _ := together(w, group, podWith("second", "shared"))
	expect(t, second.preFilter(), fwk.Success, "")
	expect(t, second.filter(0), fwk.UnschedulableAndUnresolvable, shared)
}

// Devices for extended resources that take resources of their node are refused, as that cannot be recorded.
// Other devices are not.
func TestExtendedResourcesForNodeResourcesAreRefused(t *testing.T) {
	w := accountingWorld(t, nil, withCPUs("a"), withCPUs("b"), taking(gpus("a", 1)), gpus("b", 1))
	a := w.attempt(extended(podWith("p")))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, extendedNotRecorded)
	expect(t, a.filter(1), fwk.Success, "")
}

// Devices other than those accounted for are not taken. What the scheduler did not assume is not written.
func TestOnlyAccountedDevicesAreTaken(t *testing.T) {
	w := accountingWorld(t, nil, withCPUs("a"), taking(gpus("a", 2)), gpuClaim("wanted", 1))
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")
	expect(t, w.plugin.Reserve(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	if err := w.plugin.PreBind(w.ctx, a.state, a.pod, "a").AsError(); err == nil || !strings.Contains(err.Error(), "differs from what the devices take") {
		t.Errorf("PreBind of a pod that was assumed without its devices: %v", err)
	}
	c, err := cycleOf(a.state)
	if err != nil {
		t.Fatal(err)
	}
	c.feasible("a").found[0].Devices.Results[0].Device = "gpu-1"
	if err := c.accountedFor(c.feasible("a")); !errors.Is(err, errNotAccounted) {
		t.Errorf("other devices: %v", err)
	}
}
