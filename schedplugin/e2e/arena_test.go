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
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/dev/admission"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// cpus is how many a node has.
const cpus = 8

// arena is what a spec has for itself. Names of objects outside the namespace begin with
// the namespace's.
type arena struct {
	namespace string
	driver    string
	class     string
}

// here is the arena of the spec that runs.
var here *arena

// arenas is how many there have been.
var arenas int

var _ = BeforeEach(func(ctx SpecContext) { here = newArena(ctx) })

var _ = JustAfterEach(func(ctx SpecContext) { here.dump(ctx) })

// What a spec adds outside its namespace goes only when its pods have gone.
var _ = AfterEach(func(ctx SpecContext) { here.clear(ctx) })

func newArena(ctx context.Context) *arena {
	GinkgoHelper()
	arenas++
	name := fmt.Sprintf("e2e-%d", arenas)
	a := &arena{namespace: name, driver: name + ".example.com", class: name}
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{resourceapi.DRAAdminNamespaceLabelKey: "true"},
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	a.addClass(ctx, a.class, fmt.Sprintf("device.driver == %q", a.driver))
	a.awaitAdmission(ctx, "")
	return a
}

// awaitAdmission waits until pods of a PriorityClass can be created.
func (a *arena) awaitAdmission(ctx context.Context, class string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	Expect(admission.Await(ctx, client, a.namespace, class)).To(Succeed())
}

// clear ends all pods and groups, waits until no claim holds a device, and judges what was seen.
func (a *arena) clear(ctx SpecContext) {
	a.deletePods(ctx)
	Expect(client.SchedulingV1beta1().PodGroups(a.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	Eventually(ctx, a.holders).WithTimeout(crowdPatience).Should(BeEmpty(), "claims that hold devices after all pods have gone")
	Eventually(watcher.Leaked).WithTimeout(crowdPatience).Should(BeEmpty())
	Eventually(watcher.Unexplained).WithTimeout(crowdPatience).Should(BeEmpty())
	Expect(watcher.Violations()).To(BeEmpty())
	Expect(client.CoreV1().Namespaces().Delete(ctx, a.namespace, metav1.DeleteOptions{})).To(Succeed())
}

// deletePods tells all pods to end. The API server gives up on many before all are deleted.
func (a *arena) deletePods(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		return client.CoreV1().Pods(a.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}).WithTimeout(crowdPatience).Should(Succeed())
}

// holders are the claims that are allocated.
func (a *arena) holders(ctx context.Context) ([]string, error) {
	claims, err := a.claimList(ctx)
	if err != nil {
		return nil, err
	}
	var holders []string
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			holders = append(holders, claim.Name)
		}
	}
	return holders, nil
}

// name is that of an object outside the namespace.
func (a *arena) name(suffix string) string { return a.namespace + "-" + suffix }

// attribute is the qualified name of one of the driver's attributes.
func (a *arena) attribute(name string) resourceapi.FullyQualifiedName {
	return resourceapi.FullyQualifiedName(a.driver + "/" + name)
}

// is a selector for devices that have a string attribute.
func (a *arena) is(attribute, value string) string {
	return fmt.Sprintf("device.attributes[%q].%s == %q", a.driver, attribute, value)
}

// addNode adds a node with a pool of devices, and returns its name.
func (a *arena) addNode(ctx context.Context, suffix string, devices ...resourceapi.Device) string {
	GinkgoHelper()
	name := a.name(suffix)
	a.addBareNode(ctx, name)
	if len(devices) > 0 {
		a.addSlices(ctx, inventory.Slice(a.driver, name, devices...))
	}
	return name
}

func (a *arena) addBareNode(ctx context.Context, name string) {
	GinkgoHelper()
	_, err := client.CoreV1().Nodes().Create(ctx, inventory.Node(name, cpus), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
}

// addSlices adds slices. A spec may delete them.
func (a *arena) addSlices(ctx context.Context, slices ...*resourceapi.ResourceSlice) {
	GinkgoHelper()
	for _, slice := range slices {
		_, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			if err := client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				Expect(err).NotTo(HaveOccurred())
			}
		})
	}
}

// addRule taints all devices of the driver, and returns the name of the rule. A spec may
// delete it.
func (a *arena) addRule(ctx context.Context, taint resourceapi.DeviceTaint) string {
	GinkgoHelper()
	rules := client.ResourceV1().DeviceTaintRules()
	rule, err := rules.Create(ctx, &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: a.name("rule")},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(a.driver)}, Taint: taint,
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		if err := rules.Delete(ctx, rule.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	})
	return rule.Name
}

func (a *arena) addClass(ctx context.Context, name, selector string, edits ...func(*resourceapi.DeviceClassSpec)) {
	GinkgoHelper()
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{cel(selector)}},
	}
	for _, edit := range edits {
		edit(&class.Spec)
	}
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.ResourceV1().DeviceClasses().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
}

// addPriority adds a PriorityClass, and returns its name. Without a policy it preempts.
func (a *arena) addPriority(ctx context.Context, suffix string, value int32, policy ...corev1.PreemptionPolicy) string {
	GinkgoHelper()
	policy = append(policy, corev1.PreemptLowerPriority)
	name := a.name(suffix)
	_, err := client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta:       metav1.ObjectMeta{Name: name},
		Value:            value,
		PreemptionPolicy: ptr.To(policy[0]),
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.SchedulingV1().PriorityClasses().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
	a.awaitAdmission(ctx, name)
	return name
}
