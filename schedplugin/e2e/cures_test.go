// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// wakeLimit is how long a cure may take to have the pod on a node, on a machine that has much else to do. It takes less than
// 0.2 s on others, and each spec reports it. A pod that nothing wakes is on its own for five minutes.
const wakeLimit = 30 * time.Second

// What a pod waits for: each sets a cluster up in which it does.
var reasons = map[string]func(context.Context){
	"its device is in use": func(ctx context.Context) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addHolder(ctx, here.gpus(1))
		here.addWanted(ctx, here.a100())
	},
	"it wants all devices, and one is in use": func(ctx context.Context) {
		node := here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addHolder(ctx, here.gpus(1))
		here.addSlices(ctx, inPool(inventory.Slice(here.driver, node, inventory.GPUs(1, "a100", "80Gi")...), "z"))
		here.addWanted(ctx, here.gpus(0, all))
	},
	"there is no device": func(ctx context.Context) {
		here.addNode(ctx, "a")
		here.addWanted(ctx, here.a100())
	},
	"the device is tainted": func(ctx context.Context) {
		gpu := inventory.GPU("gpu-0", "a100", 0, "80Gi")
		gpu.Taints = []resourceapi.DeviceTaint{{Key: "example.com/worn", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		here.addNode(ctx, "a", gpu)
		here.addWanted(ctx, here.a100())
	},
	"the device does not match": func(ctx context.Context) {
		here.addNode(ctx, "a", inventory.GPUs(1, "h100", "80Gi")...)
		here.addWanted(ctx, here.a100())
	},
	"its selector fails on a device": func(ctx context.Context) {
		here.addNode(ctx, "a", resourceapi.Device{Name: "gpu-0"}, inventory.GPU("gpu-1", "a100", 0, "80Gi"))
		here.addClaim(ctx, "taker", here.gpus(1))
		here.addWanted(ctx, here.a100())
	},
	"its selector fails in another pool": func(ctx context.Context) {
		node := here.addNode(ctx, "a", resourceapi.Device{Name: "gpu-0"})
		here.addSlices(ctx, inPool(inventory.Slice(here.driver, node, inventory.GPUs(1, "a100", "80Gi")...), "z"))
		here.addWanted(ctx, here.a100())
	},
	"the pool is incomplete": func(ctx context.Context) {
		slice := inventory.Slice(here.driver, here.addNode(ctx, "a"), inventory.GPUs(1, "a100", "80Gi")...)
		slice.Spec.Pool.ResourceSliceCount = 2
		here.addSlices(ctx, slice)
		here.addWanted(ctx, here.a100())
	},
	"its claim does not exist": func(ctx context.Context) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addPod(ctx, "pod", withClaim("wanted"))
	},
}

// What helps it.
var remedies = map[string]func(context.Context){
	"a node with a device is added": func(ctx context.Context) { here.addNode(ctx, "b", inventory.GPUs(1, "a100", "80Gi")...) },
	"a slice is added": func(ctx context.Context) {
		here.addSlices(ctx, inPool(inventory.Slice(here.driver, here.name("a"), inventory.GPUs(1, "a100", "80Gi")...), "0"))
	},
	"the slice is updated": func(ctx context.Context) {
		published := client.ResourceV1().ResourceSlices()
		slice, err := published.Get(ctx, inventory.Slice(here.driver, here.name("a")).Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		slice.Spec.Devices, slice.Spec.Pool.ResourceSliceCount = inventory.GPUs(2, "a100", "80Gi"), 1
		_, err = published.Update(ctx, slice, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	},
	"the slice is deleted": func(ctx context.Context) {
		Expect(client.ResourceV1().ResourceSlices().Delete(ctx, inventory.Slice(here.driver, here.name("a")).Name, metav1.DeleteOptions{})).To(Succeed())
	},
	"the holder is deleted": func(ctx context.Context) {
		Expect(client.CoreV1().Pods(here.namespace).Delete(ctx, "holder", metav1.DeleteOptions{})).To(Succeed())
	},
	"another pod takes the device": func(ctx context.Context) { here.addPod(ctx, "taker", withClaim("taker")) },
	"the class is updated": func(ctx context.Context) {
		classes := client.ResourceV1().DeviceClasses()
		class, err := classes.Get(ctx, here.class, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		class.Spec.Selectors = append(class.Spec.Selectors, cel(fmt.Sprintf("has(device.attributes[%q].model)", here.driver)))
		_, err = classes.Update(ctx, class, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	},
	"the claim is created": func(ctx context.Context) { here.addClaim(ctx, "wanted", here.a100()) },
}

// cured says which of the remedies help against which reason. What is not here does not help.
var cured = map[string][]string{
	"its device is in use":                    {"a node with a device is added", "a slice is added", "the slice is updated", "the holder is deleted"},
	"it wants all devices, and one is in use": {"a node with a device is added", "the slice is deleted", "the holder is deleted"},
	"there is no device":                      {"a node with a device is added", "a slice is added"},
	"the device is tainted":                   {"a node with a device is added", "a slice is added", "the slice is updated"},
	"the device does not match":               {"a node with a device is added", "a slice is added", "the slice is updated"},
	"its selector fails on a device":          {"a node with a device is added", "a slice is added", "the slice is updated", "another pod takes the device", "the class is updated"},
	"its selector fails in another pool":      {"a node with a device is added", "a slice is added", "the slice is updated", "the slice is deleted", "the class is updated"},
	"the pool is incomplete":                  {"a node with a device is added", "a slice is added", "the slice is updated"},
	"its claim does not exist":                {"the claim is created"},
}

var _ = Describe("A pod that waits", func() {
	for _, reason := range slices.Sorted(maps.Keys(cured)) {
		for _, remedy := range cured[reason] {
			It(fmt.Sprintf("because %s is tried again when %s", reason, remedy), func(ctx SpecContext) {
				reasons[reason](ctx)
				if reason == "its claim does not exist" {
					Consistently(ctx, here.nodeOf).WithArguments("pod").Should(BeEmpty())
				} else {
					Eventually(ctx, here.refused).WithArguments("pod").Should(BeTrue())
				}
				limit := wakeLimit
				if scheduler == controlplane.InTree {
					limit = patience // only to measure it: a pod of which the attempt ended by an error waits for seconds there
				}
				start := time.Now()
				remedies[remedy](ctx)
				Eventually(ctx, here.nodeOf).WithArguments("pod").WithTimeout(limit).ShouldNot(BeEmpty())
				AddReportEntry("woken after", time.Since(start).Round(time.Millisecond).String())
			})
		}
	}
})

// refused reports whether the scheduler found no node for a pod, or failed to judge them.
func (a *arena) refused(ctx context.Context, name string) (bool, error) {
	pod, err := client.CoreV1().Pods(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return true, nil
		}
	}
	return false, nil
}

// a100 asks for a device of that model.
func (a *arena) a100() resourceapi.DeviceClaim { return a.gpus(1, selecting(a.is("model", "a100"))) }

func (a *arena) addWanted(ctx context.Context, devices resourceapi.DeviceClaim) {
	GinkgoHelper()
	a.addClaim(ctx, "wanted", devices)
	a.addPod(ctx, "pod", withClaim("wanted"))
}

// addHolder has a pod hold devices.
func (a *arena) addHolder(ctx context.Context, devices resourceapi.DeviceClaim) {
	GinkgoHelper()
	a.addTemplate(ctx, "holder", devices)
	a.addPod(ctx, "holder", withTemplate("holder"))
	a.expectRunning(ctx, "holder")
}

// inPool gives a slice a pool of its own.
func inPool(slice *resourceapi.ResourceSlice, pool string) *resourceapi.ResourceSlice {
	slice.Name, slice.Spec.Pool.Name = slice.Name+"-"+pool, pool
	return slice
}
