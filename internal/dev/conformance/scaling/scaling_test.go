// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

// newScene is a namespace of a cluster that has a node with GPUs, none with parts of them, and pods.
func newScene(t *testing.T, pods ...corev1.Pod) *scene {
	t.Helper()
	s := &scene{cluster: &cluster{client: fake.NewClientset()}, namespace: "ns"}
	s.addNode(t, "node", withGPUs)
	for i := range pods {
		if _, err := s.client.CoreV1().Pods(s.namespace).Create(t.Context(), &pods[i], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *scene) addNode(t *testing.T, name, group string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{groupLabel: group}}}
	if _, err := s.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func pod(name, node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "too few GPUs"},
		}},
	}
}

// TestExpect: what is expected has to be there, and to stay.
func TestExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, pod("runs", "node", corev1.PodRunning), pod("waits", "", corev1.PodPending))
		began := time.Now()
		if err := s.expect(t.Context(), counts{running: 1, waiting: 1, parts: -1}); err != nil || time.Since(began) < steady {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		err := s.expect(t.Context(), counts{running: 2, parts: -1})
		if err == nil || !strings.Contains(err.Error(), "1 pods running, 1 waiting; nodes added: 0 with GPUs, -1 with parts, 0 without devices after 4m0s, want 2 pods running") ||
			!strings.Contains(err.Error(), `pod waits: Pending, on ""; Unschedulable: too few GPUs`) {
			t.Errorf("got %v", err)
		}
		// Too many nodes come while it is looked whether that stays so.
		time.AfterFunc(steady/2, func() { s.addNode(t, "too-many", withoutAny) })
		if err := s.expect(t.Context(), counts{running: 1, waiting: 1, parts: -1}); err == nil || !strings.Contains(err.Error(), "-1 with parts, 1 without devices after") {
			t.Errorf("with a node too many: %v", err)
		}
	})
}

// TestAwaitOldNode: a node is old if it is ready for more than a minute.
func TestAwaitOldNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		node, err := s.client.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		if _, err := s.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.awaitOldNode(t.Context()); err != nil || time.Since(began) <= time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestExpectEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		time.AfterFunc(time.Minute, func() {
			_, err := s.client.CoreV1().Events("ns").Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Reason: "Wanted"}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
			}
		})
		if err := s.expectEvent(t.Context(), "Wanted"); err != nil {
			t.Error(err)
		}
		if err := s.expectEvent(t.Context(), "Other"); err == nil || !strings.Contains(err.Error(), "no event Other") {
			t.Errorf("got %v", err)
		}
	})
}

// TestTemplates: cluster-autoscaler's provider finds a node for each group.
func TestTemplates(t *testing.T) {
	text, err := nodeTemplates()
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for document := range strings.SplitSeq(text, "---\n") {
		var node corev1.Node
		if err := yaml.UnmarshalStrict([]byte(document), &node); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, fmt.Sprint(node.Kind, " ", node.Labels[groupLabel], " ", node.Annotations["cluster-autoscaler.kwok.nodegroup/min-count"]))
	}
	slices.Sort(groups)
	if want := []string{"Node with-gpus 1", "Node with-parts 1", "Node without-devices 0"}; !slices.Equal(groups, want) {
		t.Errorf("groups are %q, want %q", groups, want)
	}
}

// TestPublish: nodes with devices have ResourceSlices, which end with them, and the others have none. Pools are complete.
func TestPublish(t *testing.T) {
	s := newScene(t)
	s.addNode(t, "parts", withParts)
	s.addNode(t, "bare", withoutAny)
	for range 2 {
		if err := s.publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	published, lacking := make(map[string]int), make(map[string]int64)
	for i := range list.Items {
		slice := &list.Items[i]
		published[*slice.Spec.NodeName]++
		pool := slice.Spec.Driver + "/" + slice.Spec.Pool.Name
		if _, known := lacking[pool]; !known {
			lacking[pool] = slice.Spec.Pool.ResourceSliceCount
		}
		lacking[pool]--
		if slice.OwnerReferences[0].Name != *slice.Spec.NodeName {
			t.Errorf("%s is owned by %v", slice.Name, slice.OwnerReferences)
		}
	}
	if want := map[string]int{"node": 1, "parts": 3}; !maps.Equal(published, want) {
		t.Errorf("slices by node: %v, want %v", published, want)
	}
	for pool, slices := range lacking {
		if slices != 0 {
			t.Errorf("pool %s lacks %d slices", pool, slices)
		}
	}
}

// TestLeaveOneOnEachNode: the pods that go first are all but one of each node.
func TestLeaveOneOnEachNode(t *testing.T) {
	s := newScene(t, pod("a", "n", corev1.PodRunning), pod("b", "n", corev1.PodRunning), pod("c", "m", corev1.PodRunning), pod("d", "n", corev1.PodRunning))
	if err := s.runPods(t.Context(), "a", 4, asking(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.leaveOneOnEachNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	pods, err := s.client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stay := make(map[string]int)
	for i := range pods.Items {
		if pods.Items[i].Annotations["controller.kubernetes.io/pod-deletion-cost"] == "" {
			stay[pods.Items[i].Spec.NodeName]++
		}
	}
	set, err := s.client.AppsV1().ReplicaSets("ns").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || *set.Spec.Replicas != 2 || len(stay) != 2 || stay["n"] != 1 || stay["m"] != 1 {
		t.Errorf("%v stay, %v, %v", stay, set, err)
	}
}
