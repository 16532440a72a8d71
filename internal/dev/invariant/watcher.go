// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// Watcher checks a cluster whenever a claim changes. It is safe for concurrent use.
type Watcher struct {
	claims *states
	slices resourcelisters.ResourceSliceLister
	pods   corelisters.PodLister

	mutex     sync.Mutex
	published map[DeviceID]bool  // devices that were in a slice at some time
	created   map[types.UID]bool // pods that existed at some time
	found     map[string]bool
}

// Watch begins to check. It ends with ctx.
func Watch(ctx context.Context, client kubernetes.Interface) (*Watcher, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	published, pods := factory.Resource().V1().ResourceSlices(), factory.Core().V1().Pods()
	w := &Watcher{
		slices: published.Lister(), pods: pods.Lister(),
		published: make(map[DeviceID]bool), created: make(map[types.UID]bool), found: make(map[string]bool),
	}
	_, forSlices := published.Informer().AddEventHandler(upserts(w.publish))
	_, forPods := pods.Informer().AddEventHandler(upserts(w.create))
	if err := errors.Join(forSlices, forPods); err != nil {
		return nil, fmt.Errorf("watch invariants: %w", err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("watch invariants: no list of %v: %w", kind, context.Cause(ctx))
		}
	}
	var err error
	w.claims, err = follow(ctx, client, w.check)
	return w, err
}

// upserts calls changed with what is new or different.
func upserts[T any](changed func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { changed(added.(T)) },
		UpdateFunc: func(_, updated any) { changed(updated.(T)) },
	}
}

// check applies Check to all claims as they were at one moment.
func (w *Watcher) check(claims []*resourceapi.ResourceClaim) {
	published, err := w.slices.List(labels.Everything())
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err != nil {
		w.found[err.Error()] = true
	}
	for _, sentence := range Check(published, claims) {
		w.found[sentence] = true
	}
}

func (w *Watcher) publish(slice *resourceapi.ResourceSlice) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, device := range slice.Spec.Devices {
		w.published[DeviceID{slice.Spec.Driver, slice.Spec.Pool.Name, device.Name}] = true
	}
}

func (w *Watcher) create(pod *corev1.Pod) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.created[pod.UID] = true
}

// Violations are all that was found since the beginning, sorted.
func (w *Watcher) Violations() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Sorted(maps.Keys(w.found))
}

// Unexplained is what claims refer to and has never been seen. Claims, slices and pods are
// watched independently of each other: what stays unexplained for long is a violation.
func (w *Watcher) Unexplained() []string {
	claims := w.claims.all()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var found []string
	for _, claim := range claims {
		for id := range holdings(claim) {
			if !w.published[id] {
				found = append(found, fmt.Sprintf("claim %s/%s holds device %s, which was never published", claim.Namespace, claim.Name, id))
			}
		}
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.Resource == "pods" && !w.created[consumer.UID] {
				found = append(found, fmt.Sprintf("claim %s/%s is reserved for pod %s (%s), which never existed", claim.Namespace, claim.Name, consumer.Name, consumer.UID))
			}
		}
	}
	return found
}

// Leaked are claims that are still reserved for a pod that has gone. Controllers need a
// moment to notice that a pod has gone: what stays leaked for long is a violation.
func (w *Watcher) Leaked() []string {
	var found []string
	for _, claim := range w.claims.all() {
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.Resource != "pods" {
				continue
			}
			if pod, err := w.pods.Pods(claim.Namespace).Get(consumer.Name); err != nil || pod.UID != consumer.UID {
				found = append(found, fmt.Sprintf("claim %s/%s is reserved for pod %s (%s), which is gone", claim.Namespace, claim.Name, consumer.Name, consumer.UID))
			}
		}
	}
	return found
}
