// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/dev/install"
)

// second is the scheduler beside the cluster's, and what its objects are called.
const second = "dray-scheduler"

const secondPod = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: NAME}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: COUNT}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  schedulerName: dray-scheduler
  resourceClaims: [{name: gpu, resourceClaimTemplateName: NAME}]
  containers:
  - {name: main, command: [sh, -c, "tr '\\0' '\\n' < /proc/1/environ; exec sleep inf"], resources: {claims: [{name: gpu}]}}
`

// TestSchedulerInstalled has kubelet run dray-scheduler as its manifests say: the image, the account, the rights, the probes
// and the mounts of the Deployment, as the second scheduler of the cluster. It only finds the API server without a Service.
func TestSchedulerInstalled(t *testing.T) {
	s := newSpace(t)
	s.installScheduler()
	s.createSecond("first", "1")
	s.await("first", corev1.PodRunning)
	s.mustHave("first", "main", "GPU_gpu-0")

	// The pod that leads goes, and the other one takes over.
	leader := s.leader()
	if err := client.CoreV1().Pods(metav1.NamespaceSystem).Delete(t.Context(), leader, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.createSecond("next", "2")
	s.await("next", corev1.PodRunning)
	s.mustHave("next", "main", "GPU_gpu-1", "GPU_gpu-2")
	until(t, "another pod leads, and there are two that are ready", func() bool {
		ready := s.schedulers()
		return s.leader() != leader && len(ready) == 2 && !slices.Contains(ready, leader)
	})
	s.createSecond("waits", "2")
	until(t, "a pod without room is told so", func() bool {
		return slices.ContainsFunc(s.pod("waits").Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "request gpu wants 2 devices: too few left")
		})
	})
	s.delete("first")
	s.await("waits", corev1.PodRunning)
	s.mustHave("waits", "main", "GPU_gpu-0", "GPU_gpu-3")

	// kubelet brings the file up to date while the scheduler runs.
	const file = "dray-scheduler-switches"
	switches := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: file}, Data: map[string]string{"switches.yaml": "preemption: false"}}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), switches, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(context.Background(), file, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	until(t, "both have read the switch", func() bool {
		ready := s.schedulers()
		return len(ready) == 2 && !slices.ContainsFunc(ready, func(pod string) bool {
			return !strings.Contains(strings.Join(logs(t, metav1.NamespaceSystem, pod, "scheduler"), "\n"), `now="setAside=true preemption=false"`)
		})
	})
	s.delete("next")
	s.delete("waits")
	s.mustLeaveNothing()
}

func (s *space) createSecond(name, count string) {
	s.Helper()
	s.create(strings.NewReplacer("NAME", name, "COUNT", count).Replace(secondPod))
}

// installScheduler applies what Kustomize makes of the folder for a second scheduler, and waits until its pods are ready.
func (s *space) installScheduler() {
	s.Helper()
	objects := s.render("../../../../schedplugin/deploy/second")
	deployment, err := install.Find[appsv1.Deployment](objects, "Deployment")
	if err != nil {
		s.Fatal(err)
	}
	pod := &deployment.Spec.Template.Spec
	s.importProgram(pod.Containers[0].Image, "dray-scheduler")
	s.showAPIServer(pod)
	s.applyOthers(objects, "Deployment")
	s.Cleanup(s.removeScheduler)
	if _, err := client.AppsV1().Deployments(deployment.Namespace).Create(s.Context(), deployment, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	until(s.T, "two pods of the scheduler are ready", func() bool { return len(s.schedulers()) == 2 })
}

// removeScheduler deletes the Deployment, and what keeps other schedulers from allocating devices.
func (s *space) removeScheduler() {
	ctx, background := context.Background(), metav1.DeletePropagationBackground // the test is over
	registrations, policy := client.AdmissionregistrationV1(), "dray-scheduler-devices"
	for _, err := range []error{
		client.AppsV1().Deployments(metav1.NamespaceSystem).Delete(ctx, second, metav1.DeleteOptions{PropagationPolicy: &background}),
		registrations.ValidatingAdmissionPolicyBindings().Delete(ctx, policy, metav1.DeleteOptions{}),
		registrations.ValidatingAdmissionPolicies().Delete(ctx, policy, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	}
	until(s.T, "no pod of the scheduler is left", func() bool {
		list, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + second})
		return err == nil && len(list.Items) == 0
	})
}

// schedulers are the names of the scheduler's pods that are ready and stay.
func (s *space) schedulers() (ready []string) {
	list, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + second})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if isReady(&list.Items[i]) && list.Items[i].DeletionTimestamp == nil {
			ready = append(ready, list.Items[i].Name)
		}
	}
	return ready
}

// leader is the pod that holds the lease.
func (s *space) leader() string {
	s.Helper()
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(s.Context(), second, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}
