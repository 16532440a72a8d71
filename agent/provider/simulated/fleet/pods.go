// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node"
)

// byNode is the name of the index of pods by node.
const byNode = "spec.nodeName"

// newPodController makes the controller for the pods of all nodes. It ignores pods on nodes that
// are not registered yet, or are not the fleet's.
func (f *Fleet) newPodController(pods coreinformers.PodInformer, handler node.PodLifecycleHandler) (err error) {
	if err := pods.Informer().AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}}); err != nil {
		return err
	}
	f.indexer = pods.Informer().GetIndexer()
	f.pods, err = node.NewPodController(node.PodControllerConfig{
		PodClient: f.options.Client.CoreV1(), PodInformer: pods, EventRecorder: f.recorder, Provider: handler,
		PodEventFilterFunc: func(_ context.Context, pod *corev1.Pod) bool {
			m := f.byName[pod.Spec.NodeName]
			return m != nil && m.isOurs()
		},
		SyncPodsFromKubernetesShouldRetryFunc: retryPod,
	})
	return err
}

// retryPod is a queue.ShouldRetryFunc with a short backoff, since a claim may soon be ready.
func retryPod(_ context.Context, _ string, tried int, _ time.Time, _ error) (*time.Duration, error) {
	pause := min(firstRetry<<min(tried-1, 10), lastRetry)
	return &pause, nil
}

func (m *member) isOurs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ours
}

// takePods makes the controller handle the pods of a node from now on. It adopts running pods of an
// earlier run. If that fails, the pod counts as lost by its node.
func (f *Fleet) takePods(ctx context.Context, m *member) {
	if m.isOurs() {
		return // the node was registered before
	}
	var begins []func()
	for _, pod := range f.podsOf(ctx, m) {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		begin, err := f.adoptPod(ctx, pod)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A pod of an earlier run is not gone on with", "pod", klog.KObj(pod))
			continue
		}
		begins = append(begins, begin)
	}
	m.mu.Lock()
	m.ours = true
	m.mu.Unlock()
	for _, begin := range begins {
		begin()
	}
	// Pods may have been bound meanwhile, when the controller still ignored them.
	for _, pod := range f.podsOf(ctx, m) {
		key := pod.Namespace + "/" + pod.Name
		f.pods.StorePod(key, pod)
		f.pods.SyncPodsFromKubernetesEnqueue(ctx, key)
	}
}

// podsOf returns the pods that are bound to a node.
func (f *Fleet) podsOf(ctx context.Context, m *member) []*corev1.Pod {
	objects, err := f.indexer.ByIndex(byNode, m.name)
	if err != nil { // the index does not exist
		klog.FromContext(ctx).Error(err, "Pods of a node are not found", "node", m.name)
	}
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	return pods
}
