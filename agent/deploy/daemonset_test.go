// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// addNode adds a node on which nothing runs, and which nobody calls ready.
func (i *installation) addNode(t *testing.T, name string, system corev1.OSName, taints ...corev1.Taint) {
	t.Helper()
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10")}
	_, err := i.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: string(system)}},
		Spec:       corev1.NodeSpec{Taints: taints, Unschedulable: len(taints) > 0},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// agents are the pods that the DaemonSet's controller made and the scheduler bound, by node. The one with the newer
// image is the last.
func (i *installation) agents(ctx context.Context) (map[string][]*corev1.Pod, error) {
	list, err := i.client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dray-agent"})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return strings.Compare(a.Spec.Containers[0].Image, b.Spec.Containers[0].Image)
	})
	out := make(map[string][]*corev1.Pod)
	for n := range list.Items {
		pod := &list.Items[n]
		if !metav1.IsControlledBy(pod, &metav1.ObjectMeta{UID: i.daemons}) {
			return nil, fmt.Errorf("pod %s is not of the DaemonSet", pod.Name)
		}
		out[pod.Spec.NodeName] = append(out[pod.Spec.NodeName], pod)
	}
	return out, nil
}

// agentOn is the pod of the DaemonSet on a node.
func (i *installation) agentOn(ctx context.Context, node string) (*corev1.Pod, error) {
	if i.daemons == "" {
		set, err := i.client.AppsV1().DaemonSets("kube-system").Get(ctx, "dray-agent", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		i.daemons = set.UID
	}
	agents, err := i.agents(ctx)
	if err != nil {
		return nil, err
	}
	if len(agents[node]) != 1 {
		return nil, fmt.Errorf("node %s has %d agents, and %d are not bound", node, len(agents[node]), len(agents[""]))
	}
	return agents[node][0], nil
}

// taintedNode is one that keeps pods away in each way that there is.
const taintedNode = "node-2"

func (i *installation) spread(t *testing.T) {
	i.addNode(t, "windows", corev1.Windows)
	var taints []corev1.Taint
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute} {
		taints = append(taints, corev1.Taint{Key: "example.com/devices", Value: "gpu", Effect: effect})
	}
	i.addNode(t, taintedNode, corev1.Linux, taints...)
	pod := eventually(t, "an agent on a tainted node", func(ctx context.Context) (*corev1.Pod, error) { return i.agentOn(ctx, taintedNode) })
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(of corev1.Toleration) bool { return of == corev1.Toleration{Operator: corev1.TolerationOpExists} }) {
		t.Errorf("tolerations %v", pod.Spec.Tolerations)
	}
	eventually(t, "agents on nodes with Linux only", func(ctx context.Context) (any, error) {
		set, err := i.client.AppsV1().DaemonSets("kube-system").Get(ctx, "dray-agent", metav1.GetOptions{})
		if err == nil && (set.Status.DesiredNumberScheduled != 2 || set.Status.CurrentNumberScheduled != 2 || set.Status.NumberMisscheduled != 0) {
			err = fmt.Errorf("status of the DaemonSet: %s", set.Status.String())
		}
		return nil, err
	})
}

// replace plays the kubelets of two nodes in an update. Package kubeletplugin is tested with two
// agents on a node; here is who makes two of them.
func (i *installation) replace(t *testing.T) {
	nodes := []string{nodeName, taintedNode}
	for _, node := range nodes {
		pod, err := i.agentOn(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		i.setReady(t, pod)
	}
	i.awaitAgents(t)
	change := []byte(`{"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "dray-agent:v0.1.1"}]}}}}`)
	if _, err := i.client.AppsV1().DaemonSets("kube-system").Patch(t.Context(), "dray-agent", types.StrategicMergePatchType, change, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for range nodes {
		first, second := i.awaitSuccessor(t)
		i.comparePairs(t, first.Spec.NodeName)
		i.setReady(t, second)
		eventually(t, "the old agent is told to end", func(ctx context.Context) (any, error) {
			pod, err := i.client.CoreV1().Pods(first.Namespace).Get(ctx, first.Name, metav1.GetOptions{})
			if err == nil && pod.DeletionTimestamp == nil {
				err = fmt.Errorf("agent %s of node %s runs on", pod.Name, pod.Spec.NodeName)
			}
			return nil, err
		})
		if err := i.client.CoreV1().Pods(first.Namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			t.Fatal(err)
		}
	}
	i.awaitAgents(t)
	for _, node := range nodes {
		if pod, err := i.agentOn(t.Context(), node); err != nil || pod.Spec.Containers[0].Image != "dray-agent:v0.1.1" {
			t.Errorf("node %s: %v, %v", node, pod, err)
		}
	}
}

// awaitAgents waits until the DaemonSet's controller says that both nodes have an agent that is available and up to date.
func (i *installation) awaitAgents(t *testing.T) {
	t.Helper()
	eventually(t, "the DaemonSet's status", func(ctx context.Context) (any, error) {
		set, err := i.client.AppsV1().DaemonSets("kube-system").Get(ctx, "dray-agent", metav1.GetOptions{})
		if err == nil && (set.Status.ObservedGeneration != set.Generation || set.Status.UpdatedNumberScheduled != 2 || set.Status.NumberAvailable != 2) {
			err = fmt.Errorf("%s", set.Status.String())
		}
		return nil, err
	})
}

// awaitSuccessor waits until a node has a second agent, beside the first.
func (i *installation) awaitSuccessor(t *testing.T) (first, second *corev1.Pod) {
	t.Helper()
	pair := eventually(t, "a second agent on a node", func(ctx context.Context) ([]*corev1.Pod, error) {
		agents, err := i.agents(ctx)
		for _, pods := range agents {
			if len(pods) == 2 {
				return pods, err
			}
		}
		return nil, errors.Join(err, fmt.Errorf("%d nodes, each with one agent", len(agents)))
	})
	return pair[0], pair[1]
}

// comparePairs looks whether one node has two agents, all others have one, and none is told to end.
func (i *installation) comparePairs(t *testing.T, withTwo string) {
	t.Helper()
	agents, err := i.agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, pods := range agents {
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil {
				t.Errorf("the agent %s of node %s is to end before its successor is ready", pod.Name, name)
			}
		}
		if name != withTwo && len(pods) != 1 {
			t.Errorf("nodes %s and %s have two agents at the same time, with maxSurge 1", withTwo, name)
		}
	}
}

// setReady says what kubelet says of a pod whose probes succeed.
func (i *installation) setReady(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, ptr.To(metav1.Now())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if _, err := i.client.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
