// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodesim

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// workers is how many pods change at the same time.
const workers = 4

// patience is the range of pauses before a pod is looked at again that could not be
// started.
const (
	shortestPatience = 20 * time.Millisecond
	longestPatience  = time.Second
)

// simulator acts on the pods of all nodes.
type simulator struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// Run plays kubelets until ctx ends. Failures are repeated, and do not end it.
func Run(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	s := &simulator{client: client, pods: pods.Lister(), nodes: nodes.Lister(), queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](shortestPatience, longestPatience),
	)}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.enqueue,
		UpdateFunc: func(_, changed any) { s.enqueue(changed) },
	}); err != nil {
		return fmt.Errorf("simulate nodes: watch pods: %w", err)
	}
	nodes.Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	s.work(ctx)
	return nil
}

func (s *simulator) enqueue(object any) {
	if pod := object.(*corev1.Pod); pod.Spec.NodeName != "" {
		s.queue.Add(cache.MetaObjectToName(pod))
	}
}

func (s *simulator) work(ctx context.Context) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
	group.Wait()
}

// next brings one pod forward. It returns false when there will be no more.
func (s *simulator) next(ctx context.Context) bool {
	name, done := s.queue.Get()
	if done {
		return false
	}
	defer s.queue.Done(name)
	pod, err := s.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil { // it has gone
		s.queue.Forget(name)
		return true
	}
	if err := s.advance(ctx, pod); err != nil {
		s.queue.AddRateLimited(name)
		return true
	}
	s.queue.Forget(name)
	return true
}

// advance does what the pod waits for from its node.
func (s *simulator) advance(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0),
			Preconditions:      &metav1.Preconditions{UID: &pod.UID},
		})
	case pod.Status.Phase != corev1.PodPending:
		return nil
	}
	if _, err := s.nodes.Get(pod.Spec.NodeName); err != nil {
		return fmt.Errorf("pod %s/%s has no kubelet: %w", pod.Namespace, pod.Name, err)
	}
	if err := s.prepare(ctx, pod); err != nil {
		return err
	}
	started := pod.DeepCopy()
	start(started, metav1.Now())
	_, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, started, metav1.UpdateOptions{})
	return err
}
