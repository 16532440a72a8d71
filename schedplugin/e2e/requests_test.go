// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"regexp"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Requests", func() {
	It("get as many devices as they count", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(4, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(3))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectRunning(ctx, "pod")
		Expect(here.devicesOf(ctx, "gpus")).To(ConsistOf("gpu: a/gpu-0", "gpu: a/gpu-1", "gpu: a/gpu-2"))
	})

	It("get all matching devices, or none if one is in use", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPU("one", "a100", 0, "40Gi"), inventory.GPU("two", "h100", 0, "80Gi"), inventory.GPU("three", "h100", 0, "80Gi"))
		every := here.gpus(0, all, selecting(here.is("model", "h100")))
		here.addClaim(ctx, "first", every)
		here.addClaim(ctx, "second", every)
		here.addPod(ctx, "first", withClaim("first"))
		here.expectRunning(ctx, "first")
		Expect(here.devicesOf(ctx, "first")).To(ConsistOf("gpu: a/two", "gpu: a/three"))
		here.addPod(ctx, "second", withClaim("second"))
		here.expectUnschedulable(ctx, "second")
		here.deletePod(ctx, "first")
		here.expectRunning(ctx, "second")
	})

	It("fall back to the next alternative of a prioritized list", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name:           "gpu",
			FirstAvailable: []resourceapi.DeviceSubRequest{here.alternative("best", "h100", 1), here.alternative("good", "a100", 2)},
		}}})
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectRunning(ctx, "pod")
		Expect(here.devicesOf(ctx, "gpus")).To(ConsistOf("gpu/good: a/gpu-0", "gpu/good: a/gpu-1"))
	})

	It("get devices that agree in an attribute", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPU("left", "a100", 0, "80Gi"), inventory.GPU("right-0", "a100", 1, "80Gi"), inventory.GPU("right-1", "a100", 1, "80Gi"))
		devices := here.gpus(2)
		devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(here.attribute("numa"))}}
		here.addClaim(ctx, "gpus", devices)
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectRunning(ctx, "pod")
		Expect(here.devicesOf(ctx, "gpus")).To(ConsistOf("gpu: a/right-0", "gpu: a/right-1"))
	})

	It("with admin access see devices in use, and take nothing", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "user", withClaim("gpus"))
		here.expectRunning(ctx, "user")
		here.addClaim(ctx, "monitor", here.gpus(0, all, administrating))
		here.addPod(ctx, "monitor", withClaim("monitor"))
		here.expectRunning(ctx, "monitor")
		Expect(here.devicesOf(ctx, "monitor")).To(Equal([]string{"gpu: a/gpu-0"}))
	})

	It("with admin access are refused outside namespaces for administrators", func(ctx SpecContext) {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, here.namespace, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		namespace.Labels = nil
		_, err = client.CoreV1().Namespaces().Update(ctx, namespace, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error { // the API server has to notice
			claim := &resourceapi.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "monitor-"},
				Spec:       resourceapi.ResourceClaimSpec{Devices: here.gpus(0, all, administrating)},
			}
			_, err := client.ResourceV1().ResourceClaims(here.namespace).Create(ctx, claim, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring(resourceapi.DRAAdminNamespaceLabelKey)))
	})

	It("reach devices of the network from any node", func(ctx SpecContext) {
		here.addNode(ctx, "a")
		here.addNode(ctx, "b")
		fabric := inventory.Slice(here.driver, here.name("fabric"), inventory.GPUs(1, "a100", "80Gi")...)
		fabric.Spec.NodeName, fabric.Spec.AllNodes = nil, ptr.To(true)
		here.addSlices(ctx, fabric)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "one", withTemplate("gpus"), onNode(here.name("a")))
		here.expectRunning(ctx, "one")
		here.addPod(ctx, "two", withTemplate("gpus"), onNode(here.name("b")))
		here.expectUnschedulable(ctx, "two")
		here.deletePod(ctx, "one")
		here.expectRunning(ctx, "two")
		Expect(here.devicesOf(ctx, here.claimOf(ctx, "two"))).To(Equal([]string{"gpu: fabric/gpu-0"}))
	})

	It("for an extended resource leave no claim behind", func(ctx SpecContext) {
		extended := here.addExtendedResource(ctx)
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		proxy.Inject(faults.Fault{Methods: []string{http.MethodPatch}, Path: regexp.MustCompile(`/pods/pod/status$`), Status: http.StatusForbidden, Times: 3})
		here.addPod(ctx, "pod", requesting(extended, 1))
		here.expectRunning(ctx, "pod")
		Expect(proxy.Heal()).To(BeNumerically(">", 0), "no request met the fault")
		Eventually(ctx, here.claims).Should(HaveLen(1), "claims of attempts that failed")
		here.deletePod(ctx, "pod")
		Eventually(ctx, here.claims).Should(BeEmpty(), "claims of pods that have gone")
	})

	It("for an extended resource are served by devices", func(ctx SpecContext) {
		extended := here.addExtendedResource(ctx)
		here.addNode(ctx, "a", inventory.GPUs(3, "a100", "80Gi")...)
		here.addPod(ctx, "one", requesting(extended, 2))
		here.expectRunning(ctx, "one")
		here.addPod(ctx, "two", requesting(extended, 2))
		here.expectUnschedulable(ctx, "two")
		here.deletePod(ctx, "one")
		here.expectRunning(ctx, "two")
	})
})

// addExtendedResource adds a class that offers the arena's devices as an extended resource.
func (a *arena) addExtendedResource(ctx context.Context) corev1.ResourceName {
	GinkgoHelper()
	name := a.driver + "/gpu"
	a.addClass(ctx, a.name("extended"), `device.driver == "`+a.driver+`"`, func(class *resourceapi.DeviceClassSpec) {
		class.ExtendedResourceName = ptr.To(name)
	})
	return corev1.ResourceName(name)
}

// claims are the names of all there are.
func (a *arena) claims(ctx context.Context) ([]string, error) {
	list, err := a.claimList(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, claim := range list {
		names = append(names, claim.Name)
	}
	return names, nil
}
