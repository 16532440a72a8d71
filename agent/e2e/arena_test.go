// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// arena is what a spec has for itself. Names of objects outside the namespace begin with
// the namespace's.
type arena struct {
	namespace string
	node      string
	driver    string // its class has the namespace's name
}

var (
	// here is the arena of the spec that runs.
	here   *arena
	arenas int
)

func newArena(ctx context.Context) *arena {
	GinkgoHelper()
	arenas++
	name := fmt.Sprintf("e2e-%d", arenas)
	a := &arena{namespace: name, node: name + "-node", driver: name + ".example.com"}
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	a.addClass(ctx, a.driver, "")
	return a
}

// addClass adds a class for the devices of a driver, which has the driver's name. The
// extended resource, if any, stands for one of them.
func (a *arena) addClass(ctx context.Context, driver, extended string) {
	GinkgoHelper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}},
	}}
	if extended != "" {
		class.Name += "-extended"
		class.Spec.ExtendedResourceName = &extended
	}
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.ResourceV1().DeviceClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})).To(Succeed())
	})
}

// addDevices publishes devices gpu-0 and so on of a driver on the arena's node.
func (a *arena) addDevices(ctx context.Context, driver string, count int) {
	GinkgoHelper()
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: a.node + "-" + driver}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: ptr.To(a.node), Pool: resourceapi.ResourcePool{Name: a.node, Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: nth("gpu", i)})
	}
	_, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		if err := client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	})
}

// nth numbers names.
func nth(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }

// claimSpec wants so many devices of each driver.
func claimSpec(count int64, drivers ...string) resourceapi.ResourceClaimSpec {
	var spec resourceapi.ResourceClaimSpec
	for i, driver := range drivers {
		spec.Devices.Requests = append(spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: nth("request", i), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver, Count: count},
		})
	}
	return spec
}

// addClaim adds a claim for one device of each driver; none stands for the arena's.
func (a *arena) addClaim(ctx context.Context, name string, drivers ...string) *resourceapi.ResourceClaim {
	GinkgoHelper()
	if len(drivers) == 0 {
		drivers = []string{a.driver}
	}
	claim, err := client.ResourceV1().ResourceClaims(a.namespace).Create(ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(1, drivers...),
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return claim
}

// template is the name of a template of claims.
const template = "own"

// addTemplate adds a template of claims for one of the arena's devices.
func (a *arena) addTemplate(ctx context.Context) {
	GinkgoHelper()
	_, err := client.ResourceV1().ResourceClaimTemplates(a.namespace).Create(ctx, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: template}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claimSpec(1, a.driver)},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// with are changes of a pod before it is created.
type with func(*corev1.Pod)

func use(pod *corev1.Pod, reference corev1.PodResourceClaim) {
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, reference)
	container := &pod.Spec.Containers[0]
	container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: reference.Name})
}

func withClaim(name string) with {
	return func(pod *corev1.Pod) { use(pod, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)}) }
}

func withTemplate(pod *corev1.Pod) {
	use(pod, corev1.PodResourceClaim{Name: template, ResourceClaimTemplateName: ptr.To(template)})
}

func withoutRestart(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

func withAnnotation(name, value string) with {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, name, value) }
}

// addPod adds a pod that the arena's node is for.
func (a *arena) addPod(ctx context.Context, name string, changes ...with) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: a.node},
		Containers:   []corev1.Container{{Name: "main", Image: "example.com/main"}},
	}}
	for _, change := range changes {
		change(pod)
	}
	var created *corev1.Pod
	// Pods are forbidden until the namespace has its service account.
	Eventually(ctx, func() (err error) {
		created, err = client.CoreV1().Pods(a.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}).Should(Succeed())
	return created
}

func (a *arena) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return client.CoreV1().Pods(a.namespace).Get(ctx, name, metav1.GetOptions{})
}

func (a *arena) phase(ctx context.Context, name string) (corev1.PodPhase, error) {
	pod, err := a.pod(ctx, name)
	if err != nil {
		return "", err
	}
	return pod.Status.Phase, nil
}

func (a *arena) expectPhase(ctx context.Context, phase corev1.PodPhase, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Eventually(ctx, a.phase).WithArguments(name).Should(Equal(phase), name)
	}
}

// remove deletes a pod, with so many seconds of grace; 0 is by force.
func (a *arena) remove(ctx context.Context, name string, grace int64) {
	GinkgoHelper()
	Expect(client.CoreV1().Pods(a.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})).To(Succeed())
}

func (a *arena) expectGone(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Eventually(ctx, func() bool {
			_, err := a.pod(ctx, name)
			return apierrors.IsNotFound(err)
		}).Should(BeTrue(), "%s is gone", name)
	}
}

// claimOf is the claim that a pod has from a template.
func (a *arena) claimOf(ctx context.Context, pod string) *resourceapi.ResourceClaim {
	GinkgoHelper()
	found, err := a.pod(ctx, pod)
	Expect(err).NotTo(HaveOccurred())
	Expect(found.Status.ResourceClaimStatuses).To(HaveLen(1))
	return a.claim(ctx, *found.Status.ResourceClaimStatuses[0].ResourceClaimName)
}

func (a *arena) claim(ctx context.Context, name string) *resourceapi.ResourceClaim {
	GinkgoHelper()
	claim, err := client.ResourceV1().ResourceClaims(a.namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return claim
}

// holders are the claims that are allocated.
func (a *arena) holders(ctx context.Context) ([]string, error) {
	claims, err := client.ResourceV1().ResourceClaims(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var holders []string
	for _, claim := range claims.Items {
		if claim.Status.Allocation != nil {
			holders = append(holders, claim.Name)
		}
	}
	return holders, nil
}

// warnings are the messages of a pod's Events of a reason.
func (a *arena) warnings(ctx context.Context, pod, reason string) ([]string, error) {
	events, err := client.CoreV1().Events(a.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, event := range events.Items {
		messages = append(messages, event.Message)
	}
	return messages, nil
}
