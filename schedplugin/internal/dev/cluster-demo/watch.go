// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/dray-project/dray/schedplugin/internal/dev/nodesim"
)

// stage is where acts are performed: a namespace whose pods are watched.
type stage struct {
	client    kubernetes.Interface
	namespace string
	board     *board

	mutex   sync.Mutex
	created map[string]time.Time // when the demo created a pod, by name
	pods    map[string]*corev1.Pod
	evicted int
}

// newStage begins to watch pods, until ctx ends.
func newStage(ctx context.Context, client kubernetes.Interface, board *board) (*stage, error) {
	s := &stage{client: client, namespace: "demo", board: board, created: make(map[string]time.Time), pods: make(map[string]*corev1.Pod)}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(s.namespace))
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { s.observe(ctx, added.(*corev1.Pod)) },
		UpdateFunc: func(_, updated any) { s.observe(ctx, updated.(*corev1.Pod)) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s, ctx.Err()
}

// create creates the objects of a manifest, and returns the names of its pods.
func (s *stage) create(ctx context.Context, manifest string) ([]string, error) {
	objects, err := read(manifest)
	if err != nil {
		return nil, err
	}
	var pods []string
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod.Name)
			s.expect(pod.Name)
		}
		if err := createObject(ctx, s.client, object); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", manifest, err)
		}
	}
	return pods, nil
}

// expect notes when a pod was created: the API server's timestamps are whole seconds.
func (s *stage) expect(pod string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.created[pod] = time.Now()
}

// observe compares a pod with what was known of it, and prints what is new.
func (s *stage) observe(ctx context.Context, pod *corev1.Pod) {
	now, devices := time.Now(), s.devices(ctx, pod)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	known := s.pods[pod.Name]
	if known == nil {
		known = &corev1.Pod{}
	}
	s.pods[pod.Name] = pod
	after := now.Sub(s.created[pod.Name])
	switch {
	case known.DeletionTimestamp == nil && pod.DeletionTimestamp != nil:
		s.evicted++
		s.board.row(pod.Name, pod.Spec.NodeName, []string{"evicted"}, after)
	case known.Spec.NodeName == "" && pod.Spec.NodeName != "":
		s.board.row(pod.Name, pod.Spec.NodeName, devices, after)
	case !refused(known) && refused(pod):
		s.board.row(pod.Name, "-", []string{"not placed"}, after)
	}
}

// refused tells whether the scheduler found no node for the pod.
func refused(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable
	})
}

// devices are what the claims of a pod that has a node hold.
func (s *stage) devices(ctx context.Context, pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	names, err := nodesim.ClaimNames(pod)
	if err != nil {
		return []string{err.Error()}
	}
	var devices []string
	for _, name := range names {
		claim, err := s.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || claim.Status.Allocation == nil {
			continue // the pod has gone in the meantime
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, result.Device)
		}
	}
	return devices
}

// await waits until a pod runs or, if it is unplaceable, until it was refused.
func (s *stage) await(ctx context.Context, pod string, unplaceable bool) error {
	return wait.PollUntilContextCancel(ctx, pollPeriod, true, func(context.Context) (bool, error) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		seen := s.pods[pod]
		return seen != nil && (seen.Status.Phase == corev1.PodRunning || unplaceable && refused(seen)), nil
	})
}

func (s *stage) evictions() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.evicted
}
