// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega" //nolint:revive // how expectations are written
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/install"
	"github.com/dray-project/dray/schedplugin/internal/dev/admission"
)

// Who allocates devices in TestExclusiveDevices.
const (
	ours   = "system:serviceaccount:kube-system:dray-scheduler"
	theirs = "system:kube-scheduler"
	// stranger has a name that must be quoted.
	stranger = `O'Neill "gpu" \ <x@example.com>`
)

// policy is the name of the ValidatingAdmissionPolicy and of its binding.
const policy = "dray-scheduler-devices"

// attempt is a claim for one device of each driver, that a scheduler tries to allocate.
type attempt struct {
	user    string
	drivers string // separated by spaces
	admin   bool
}

// TestExclusiveDevices has schedulers allocate devices that are whose as the policy says. It is removed and installed again: with
// parameters in a ConfigMap, API servers no longer follow changes then (kubernetes#130887).
func TestExclusiveDevices(t *testing.T) {
	plane, client := startPlane(t)
	g := NewWithT(t)
	a, err := install.NewApplier(plane.Config())
	g.Expect(err).NotTo(HaveOccurred())
	apply := func() {
		for _, object := range rendered(t, "kustomize all") {
			if object.GetName() == policy {
				g.Expect(a.Apply(t.Context(), object)).To(Succeed())
			}
		}
	}
	apply()
	s := &rivalry{client: client, users: make(map[string]kubernetes.Interface)}
	for _, user := range []string{ours, theirs, stranger} {
		// What they may do otherwise is not what is tested.
		config, err := plane.ConfigFor(user, "system:masters")
		g.Expect(err).NotTo(HaveOccurred())
		s.users[user], err = kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
	}
	s.prepare(t)
	const gpu, nic = "gpu.example.com", "nic.example.com"

	s.expect(t, map[attempt]string{
		{ours, gpu, false}:   "",
		{ours, nic, false}:   "",
		{theirs, gpu, false}: "devices of driver " + gpu + " are allocated by " + ours + " only, and not by " + theirs,
		{theirs, nic, false}: "devices of driver " + nic + " are allocated by",
		{theirs, gpu, true}:  "",
		{theirs, "", false}:  "",
	})
	t.Run("others reserve and deallocate", s.shareClaim)

	s.reassign(t, []string{gpu}, []string{ours})
	s.expect(t, map[attempt]string{
		{ours, gpu, false}:               "",
		{ours, nic, false}:               ours + " allocates devices of drivers " + gpu + " only, and not of " + nic,
		{ours, gpu + " " + nic, false}:   "and not of " + nic,
		{theirs, gpu, false}:             "devices of driver " + gpu,
		{theirs, nic, false}:             "",
		{theirs, nic + " " + gpu, false}: "devices of driver " + gpu,
		{theirs, gpu, true}:              "",
	})

	// For the time of a rollback.
	s.reassign(t, []string{"*"}, []string{ours, theirs})
	s.expect(t, map[attempt]string{
		{ours, gpu, false}:   "",
		{theirs, gpu, false}: "",
		{theirs, nic, false}: "",
	})

	registrations := client.AdmissionregistrationV1()
	g.Expect(registrations.ValidatingAdmissionPolicyBindings().Delete(t.Context(), policy, metav1.DeleteOptions{})).To(Succeed())
	g.Expect(registrations.ValidatingAdmissionPolicies().Delete(t.Context(), policy, metav1.DeleteOptions{})).To(Succeed())
	s.expect(t, map[attempt]string{{stranger, gpu, false}: ""})
	apply()
	s.expect(t, map[attempt]string{{theirs, gpu, false}: "devices of driver " + gpu})
	s.reassign(t, []string{nic, `a"b\<c`}, []string{ours, stranger})
	for _, list := range []string{"gpu.example.com", `"gpu.example.com"`, `["gpu.example.com"`} {
		_, err := s.patch(t, map[string]string{"name": "drivers", "expression": list})
		g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", list, err)
	}
	s.expect(t, map[attempt]string{
		{stranger, nic, false}: "",
		{theirs, nic, false}:   "are allocated by " + ours + ", " + stranger + " only",
		{theirs, gpu, false}:   "",
	})
}

// rivalry is about claims that several users allocate.
type rivalry struct {
	client kubernetes.Interface // the administrator's
	users  map[string]kubernetes.Interface
}

func (s *rivalry) prepare(t *testing.T) {
	g := NewWithT(t)
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "rivals", Labels: map[string]string{resourceapi.DRAAdminNamespaceLabelKey: "true"},
	}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g.Expect(admission.Await(ctx, s.client, "rivals", "")).To(Succeed())
	for name, admin := range map[string]*bool{"plain": nil, "admin": ptr.To(true)} {
		_, err := s.client.ResourceV1().ResourceClaims("rivals").Create(t.Context(), &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{resourceapi.Finalizer}},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name:    "device",
				Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1, AdminAccess: admin},
			}}}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// allocate does what the attempt says, as its user.
func (s *rivalry) allocate(ctx context.Context, a attempt, options metav1.UpdateOptions) error {
	name := map[bool]string{true: "admin", false: "plain"}[a.admin]
	claims := s.users[a.user].ResourceV1().ResourceClaims("rivals")
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for driver := range strings.FieldsSeq(a.drivers) {
		result := resourceapi.DeviceRequestAllocationResult{Request: "device", Driver: driver, Pool: "a", Device: "one"}
		if a.admin {
			result.AdminAccess = ptr.To(true)
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
	}
	_, err = claims.UpdateStatus(ctx, claim, options)
	return err
}

// expect tries until all attempts end as they should: allowed, or forbidden with a message.
// The API server takes a moment to take note of a policy.
func (s *rivalry) expect(t *testing.T, attempts map[attempt]string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		for a, message := range attempts {
			err := s.allocate(t.Context(), a, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if message == "" {
				g.Expect(err).NotTo(HaveOccurred(), "%+v", a)
				continue
			}
			g.Expect(err).To(MatchError(ContainSubstring(message)), "%+v", a)
			g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%+v: %v", a, err)
		}
	}).WithTimeout(patience).Should(Succeed())
}

// reassign changes whose the devices are, as kubectl patch does.
func (s *rivalry) reassign(t *testing.T, drivers, users []string) {
	t.Helper()
	g := NewWithT(t)
	var lists []map[string]string
	for name, list := range map[string][]string{"drivers": drivers, "users": users} {
		text, err := json.Marshal(list)
		g.Expect(err).NotTo(HaveOccurred())
		lists = append(lists, map[string]string{"name": name, "expression": string(text)})
	}
	_, err := s.patch(t, lists...)
	g.Expect(err).NotTo(HaveOccurred())
}

// patch changes variables of the policy.
func (s *rivalry) patch(t *testing.T, variables ...map[string]string) (*admissionv1.ValidatingAdmissionPolicy, error) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"variables": variables}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(t.Context(), policy, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// shareClaim has somebody else reserve and deallocate a claim, which takes no device.
func (s *rivalry) shareClaim(t *testing.T) {
	g := NewWithT(t)
	g.Expect(s.allocate(t.Context(), attempt{ours, "gpu.example.com", false}, metav1.UpdateOptions{})).To(Succeed())
	claims := s.users[theirs].ResourceV1().ResourceClaims("rivals")
	claim, err := claims.Get(t.Context(), "plain", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(claim.Status.Allocation).NotTo(BeNil())
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "1"}}
	claim, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	claim.Status.ReservedFor, claim.Status.Allocation = nil, nil
	_, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}
