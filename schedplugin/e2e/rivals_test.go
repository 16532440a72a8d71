// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// The rival is a scheduler beside the suite's, for pods that name it, with the other plugin.
const (
	rival     = "rival-scheduler"
	rivalUser = "rival"
)

// byRival gives the pod to the rival.
func byRival(pod *corev1.Pod) { pod.Spec.SchedulerName = rival }

var _ = Describe("Schedulers with different plugins side by side", func() {
	BeforeEach(func(ctx SpecContext) {
		here.allowRival(ctx)
		other := controlplane.InTree
		if scheduler == controlplane.InTree {
			other = controlplane.Dray
		}
		startAnother(ctx, controlplane.AnotherOptions{Name: rival, Scheduler: other, Profile: rival, User: rivalUser})
	})

	It("agree about a claim: the second one uses what the first one has allocated", func(ctx SpecContext) {
		node := here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, toStatus, func() { here.addPod(ctx, "second", withClaim("gpus")) }, func() {
			here.addPod(ctx, "first", withClaim("gpus"), byRival)
			here.expectRunning(ctx, "first")
		})
		here.expectRunning(ctx, "second")
		Expect(here.nodeOf(ctx, "second")).To(Equal(node))
		Expect(here.claim(ctx, "gpus").Status.ReservedFor).To(HaveLen(2))
	})

	It("notice that another one allocates devices of the same driver", func(ctx SpecContext) {
		if scheduler == controlplane.InTree {
			Skip("the in-tree plugin notices nothing")
		}
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "ours", withTemplate("gpus"))
		here.expectRunning(ctx, "ours")
		here.addPod(ctx, "theirs", withTemplate("gpus"), byRival)
		here.expectRunning(ctx, "theirs")
		Eventually(ctx, here.eventsOf).WithArguments(here.claimOf(ctx, "theirs")).Should(ContainElement(And(
			HaveField("Reason", "AllocatedByAnotherScheduler"),
			HaveField("Note", "somebody else allocated devices of driver "+here.driver+", which default-scheduler allocates, too: a device can get into two claims"))))
		Expect(here.eventsOf(ctx, here.claimOf(ctx, "ours"))).NotTo(ContainElement(HaveField("Reason", "AllocatedByAnotherScheduler")))
	})

	It("give no device away twice while the policy is there", func(ctx SpecContext) {
		const devices = 48
		here.excludeOthers(ctx, controlplane.SchedulerUser)
		var ours []string
		for i := range devices / 8 {
			here.addNode(ctx, fmt.Sprint("n", i), inventory.GPUs(8, "a100", "80Gi")...)
		}
		here.addTemplate(ctx, "gpus", here.gpus(1))
		for i := range devices {
			ours = append(ours, fmt.Sprint("ours-", i))
			here.addPod(ctx, ours[i], withTemplate("gpus"))
			here.addPod(ctx, fmt.Sprint("theirs-", i), withTemplate("gpus"), byRival)
		}
		here.expectRunning(ctx, ours...)
		Expect(here.twice(ctx)).To(BeEmpty())
		Expect(here.holders(ctx)).To(HaveLen(devices))
	})

	It("are kept from each other's devices by the policy, and recover when it changes", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.excludeOthers(ctx, controlplane.SchedulerUser)
		// Both have chosen the same device; the rival is the first to say so.
		here.meanwhile(ctx, toFinalizers, func() { here.addPod(ctx, "ours", withTemplate("gpus")) }, func() {
			here.addPod(ctx, "theirs", withTemplate("gpus"), byRival)
			Eventually(ctx, here.eventsOf).WithArguments("theirs").Should(ContainElement(HaveField("Note",
				ContainSubstring("are allocated by "+controlplane.SchedulerUser+" only, and not by "+rivalUser))))
			Expect(here.holders(ctx)).To(BeEmpty())
		})
		here.expectRunning(ctx, "ours")
		here.assignTo(ctx, controlplane.SchedulerUser, rivalUser)
		here.expectRunning(ctx, "theirs")
	})
})

// twice are the devices that more than one claim holds.
func (a *arena) twice(ctx context.Context) []string {
	GinkgoHelper()
	claims, err := a.claimList(ctx)
	Expect(err).NotTo(HaveOccurred())
	holders, twice := make(map[string]int), []string{}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := result.Pool + "/" + result.Device
			if holders[device]++; holders[device] == 2 {
				twice = append(twice, device)
			}
		}
	}
	return twice
}

// allowRival has the rival do what a scheduler does.
func (a *arena) allowRival(ctx context.Context) {
	GinkgoHelper()
	for _, role := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
		a.bindRole(ctx, role, rivalUser)
	}
}

// bindRole gives a user a ClusterRole.
func (a *arena) bindRole(ctx context.Context, role, user string) {
	GinkgoHelper()
	name := a.name(user + "-" + strings.ReplaceAll(role, ":", "-"))
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
}

// excludeOthers installs the policy that is deployed, for the arena's driver.
func (a *arena) excludeOthers(ctx context.Context, users ...string) {
	GinkgoHelper()
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for file, object := range map[string]any{"policy": policy, "binding": binding} {
		text, err := os.ReadFile(filepath.Join("../deploy/chart/exclusive", file+".yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(text, object)).To(Succeed())
	}
	a.setLists(policy, users)
	registrations := client.AdmissionregistrationV1()
	_, err := registrations.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = registrations.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(registrations.ValidatingAdmissionPolicyBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(registrations.ValidatingAdmissionPolicies().Delete(ctx, policy.Name, metav1.DeleteOptions{})).To(Succeed())
	})
	a.awaitPolicy(ctx)
}

// setLists has a policy say that users allocate the devices of the arena.
func (a *arena) setLists(policy *admissionv1.ValidatingAdmissionPolicy, users []string) {
	GinkgoHelper()
	lists := map[string][]string{"drivers": {a.driver}, "users": users}
	for i := range policy.Spec.Variables {
		variable := &policy.Spec.Variables[i]
		if list, found := lists[variable.Name]; found {
			text, err := json.Marshal(list)
			Expect(err).NotTo(HaveOccurred())
			variable.Expression = string(text)
			delete(lists, variable.Name)
		}
	}
	Expect(lists).To(BeEmpty())
}

// awaitPolicy waits until nobody but the schedulers can allocate a claim.
func (a *arena) awaitPolicy(ctx context.Context) {
	GinkgoHelper()
	a.addClaim(ctx, "probe", a.gpus(1))
	claims := client.ResourceV1().ResourceClaims(a.namespace)
	Eventually(ctx, func() error {
		probe := a.claim(ctx, "probe")
		probe.Status.Allocation = allocation(a.driver, "none", "none")
		_, err := claims.UpdateStatus(ctx, probe, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(MatchError(ContainSubstring("are allocated by")))
	Expect(claims.Delete(ctx, "probe", metav1.DeleteOptions{})).To(Succeed())
}

// assignTo changes who may allocate the devices of the arena.
func (a *arena) assignTo(ctx context.Context, users ...string) {
	GinkgoHelper()
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		policy, err := policies.Get(ctx, "dray-scheduler-devices", metav1.GetOptions{})
		if err != nil {
			return err
		}
		a.setLists(policy, users)
		_, err = policies.Update(ctx, policy, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}
