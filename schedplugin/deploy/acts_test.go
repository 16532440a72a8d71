// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:revive // how expectations are written
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/install"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

func (s *stage) scheduleTemplates(t *testing.T) {
	s.addPod(t, "plain")
	s.addPod(t, "templated", withTemplate("one"))
	s.expectRunning(t, "plain", "templated")
}

// disturb has a claim change at the wrong moment, and a pod not get to its node.
func (s *stage) disturb(t *testing.T) {
	s.installed.recorder.Disturb(install.Permission{Verb: "update", Group: resourceapi.GroupName, Resource: "resourceclaims/status"}, http.StatusConflict)
	s.installed.recorder.Disturb(install.Permission{Verb: "create", Resource: "pods/binding"}, http.StatusConflict)
	s.addPod(t, "disturbed", withTemplate("one"))
	s.expectRunning(t, "disturbed")
	NewWithT(t).Expect(s.installed.recorder.Disturbed()).To(BeTrue())
}

// preempt has a pod evict those that hold all devices.
func (s *stage) preempt(t *testing.T) {
	g := NewWithT(t)
	_, err := s.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000,
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	s.awaitAdmission(t, "urgent")
	s.addPod(t, "urgent", withTemplate("two"), func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "urgent" })
	s.expectRunning(t, "urgent")
	s.expectGone(t, "templated")
	s.expectGone(t, "disturbed")
}

// repeatFailure has a pod fail again and again for the same reason, which is one Event that
// counts, as soon as nothing else about the pod changes.
func (s *stage) repeatFailure(t *testing.T) {
	g := NewWithT(t)
	s.addNode(t, "b")
	s.addPod(t, "waiting", withTemplate("one"))
	labels := 0
	g.Eventually(func(ctx context.Context) ([]eventsv1.Event, error) {
		labels++
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/label":"%d"}}}`, labels)
		// A driver that writes its slices wakes pods that wait for devices.
		slices, err := s.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(slices.Items) == 0 {
			return nil, fmt.Errorf("%d slices: %w", len(slices.Items), err)
		}
		if _, err := s.client.ResourceV1().ResourceSlices().Patch(ctx, slices.Items[0].Name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
			return nil, err
		}
		events, err := s.client.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		return events.Items, err
	}).WithContext(t.Context()).WithTimeout(patience).WithPolling(500 * time.Millisecond).
		Should(ContainElement(And(HaveField("Regarding.Name", "waiting"), HaveField("Reason", "FailedScheduling"), HaveField("Series", Not(BeNil())))))
	s.deletePods(t)
}

// scheduleExtended has a claim made for a pod, twice: the first time the pod does not get to
// its node.
func (s *stage) scheduleExtended(t *testing.T) {
	s.installed.recorder.Disturb(install.Permission{Verb: "create", Resource: "pods/binding"}, http.StatusConflict)
	s.addPod(t, "extended", func(pod *corev1.Pod) {
		amount := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
	})
	s.expectRunning(t, "extended")
	NewWithT(t).Expect(s.installed.recorder.Disturbed()).To(BeTrue())
}

// bindVolumes has a volume chosen for one claim, and a node for another one whose volume is
// to be made there. Nobody makes it, so that the pods stay where they are.
func (s *stage) bindVolumes(t *testing.T) {
	g := NewWithT(t)
	s.addStorageClass(t, "local", "kubernetes.io/no-provisioner")
	s.addStorageClass(t, "made", "volumes.example.com")
	disk, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:       "local",
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/disk"}},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	disk.Status.Phase = corev1.VolumeAvailable
	_, err = s.client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), disk, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	s.addPod(t, "bound", s.withVolume(t, "local"))
	s.addPod(t, "provisioned", s.withVolume(t, "made"))
	g.Eventually(func() (*corev1.ObjectReference, error) {
		volume, err := s.client.CoreV1().PersistentVolumes().Get(t.Context(), "disk", metav1.GetOptions{})
		return volume.Spec.ClaimRef, err
	}).WithTimeout(patience).Should(And(Not(BeNil()), HaveField("Name", "local")))
	g.Eventually(func() (map[string]string, error) {
		claim, err := s.client.CoreV1().PersistentVolumeClaims(s.namespace).Get(t.Context(), "made", metav1.GetOptions{})
		return claim.Annotations, err
	}).WithTimeout(patience).Should(HaveKey("volume.kubernetes.io/selected-node"))
	s.deletePods(t)
}

func (s *stage) addStorageClass(t *testing.T, name, provisioner string) {
	t.Helper()
	_, err := s.client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// withVolume makes the pod use a new volume claim, with the name of its class.
func (s *stage) withVolume(t *testing.T, class string) func(*corev1.Pod) {
	t.Helper()
	_, err := s.client.CoreV1().PersistentVolumeClaims(s.namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "volume", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: class},
		}}}
	}
}

// scheduleGroup has two pods go together.
func (s *stage) scheduleGroup(t *testing.T) {
	_, err := s.client.SchedulingV1beta1().PodGroups(s.namespace).Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "gang"},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}},
		},
	}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	member := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
	}
	s.addPod(t, "left", withTemplate("one"), member)
	s.addPod(t, "right", withTemplate("one"), member)
	s.expectRunning(t, "left", "right")
}

func (s *stage) addNode(t *testing.T, name string) {
	t.Helper()
	_, err := s.client.CoreV1().Nodes().Create(t.Context(), inventory.Node(name, 8), metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func (s *stage) addTemplate(t *testing.T, name string, count int64) {
	t.Helper()
	_, err := s.client.ResourceV1().ResourceClaimTemplates(s.namespace).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: count}}},
		}}},
	}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func (s *stage) addPod(t *testing.T, name string, edits ...func(*corev1.Pod)) {
	t.Helper()
	pod := inventory.Pod(name)
	for _, edit := range edits {
		edit(pod)
	}
	_, err := s.client.CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// withTemplate gives the pod a claim made from a template.
func withTemplate(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		inventory.Use(pod, corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: &name})
	}
}

func (s *stage) expectRunning(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		NewWithT(t).Eventually(func() (corev1.PodPhase, error) {
			pod, err := s.client.CoreV1().Pods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
			return pod.Status.Phase, err
		}).WithTimeout(patience).Should(Equal(corev1.PodRunning), "pod %s", name)
	}
}

func (s *stage) expectGone(t *testing.T, name string) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		_, err := s.client.CoreV1().Pods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(patience).Should(BeTrue(), "pod %s", name)
}

// deletePods ends all pods.
func (s *stage) deletePods(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.client.CoreV1().Pods(s.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	g.Eventually(func() ([]corev1.Pod, error) {
		pods, err := s.client.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
		return pods.Items, err
	}).WithTimeout(patience).Should(BeEmpty())
}
