// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodesim

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func bound(claims ...corev1.PodResourceClaim) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod-uid"},
		Spec: corev1.PodSpec{
			NodeName:       "node",
			Containers:     []corev1.Container{{Name: "main"}},
			ResourceClaims: claims,
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func node() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}} }

func named(claim string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: "entry", ResourceClaimName: &claim}
}

func claim(name string, allocated bool, reservedFor ...types.UID) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if allocated {
		c.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for _, uid := range reservedFor {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: uid})
	}
	return c
}

// simulate runs nodes until reached is true of the pod, or of nil when it has gone.
func simulate(t *testing.T, client kubernetes.Interface, reached func(*corev1.Pod) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, client) }()
	err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods("ns").Get(ctx, "pod", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return reached(nil), nil
		}
		return err == nil && reached(pod), err
	})
	cancel()
	if stopped := <-ended; err != nil || stopped != nil {
		t.Errorf("%v; Run returned %v", err, stopped)
	}
}

func TestBoundPodsRun(t *testing.T) {
	client := fake.NewClientset(node(), bound(named("gpu")), claim("gpu", true, "pod-uid"))
	simulate(t, client, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
	})
}

// TestPodsNeedTheirNode has a pod bound to a node that does not exist, and comes to.
func TestPodsNeedTheirNode(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	client := fake.NewClientset(bound())
	s := &simulator{client: client, nodes: corelisters.NewNodeLister(nodes)}
	if err := s.advance(t.Context(), bound()); err == nil || !strings.Contains(err.Error(), "pod ns/pod has no kubelet") {
		t.Errorf("got %v", err)
	}
	if err := nodes.Add(node()); err != nil {
		t.Fatal(err)
	}
	if err := s.advance(t.Context(), bound()); err != nil {
		t.Error(err)
	}
	pod, err := client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
	if err != nil || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod is %s, %v", pod.Status.Phase, err)
	}
}

func TestDeletedPodsGo(t *testing.T) {
	pod := bound()
	pod.DeletionTimestamp, pod.Finalizers = ptr.To(metav1.Now()), []string{"example.com/kept-until-deleted"}
	simulate(t, fake.NewClientset(pod), func(pod *corev1.Pod) bool { return pod == nil })
}

func TestPrepare(t *testing.T) {
	generated := bound(corev1.PodResourceClaim{Name: "entry", ResourceClaimTemplateName: ptr.To("template")})
	generated.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "entry", ResourceClaimName: ptr.To("gpu")}}
	extended := bound()
	extended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "gpu"}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		claim *resourceapi.ResourceClaim
		want  string
	}{
		"by name":            {pod: bound(named("gpu")), claim: claim("gpu", true, "other", "pod-uid")},
		"from a template":    {pod: generated, claim: claim("gpu", true, "pod-uid")},
		"extended resource":  {pod: extended, claim: claim("gpu", true, "pod-uid")},
		"missing":            {pod: bound(named("gpu")), claim: claim("other", true, "pod-uid"), want: "not found"},
		"not allocated":      {pod: generated, claim: claim("gpu", false), want: "claim gpu is not allocated"},
		"reserved for other": {pod: extended, claim: claim("gpu", true, "other"), want: "claim gpu is not reserved for the pod"},
		"not generated yet": {
			pod:   bound(corev1.PodResourceClaim{Name: "entry", ResourceClaimTemplateName: ptr.To("template")}),
			claim: claim("gpu", true), want: "the claim for entry does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &simulator{client: fake.NewClientset(test.claim)}
			err := s.prepare(t.Context(), test.pod)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
