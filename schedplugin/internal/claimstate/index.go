// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Index finds the pods that refer to a claim.
type Index struct {
	indexer cache.Indexer
	pods    corelisters.PodLister
	index   string
	synced  func() bool
}

// NewIndex adds an index to the scheduler's informer of pods. Each profile adds one under its own name: an
// informer refuses two indexes of one name.
func NewIndex(handle fwk.Handle) (Index, error) {
	index := "dray-claims-" + handle.ProfileName()
	pods := handle.SharedInformerFactory().Core().V1().Pods()
	informer := pods.Informer()
	if err := informer.AddIndexers(cache.Indexers{index: claimKeys}); err != nil {
		return Index{}, fmt.Errorf("index pods by resource claim: %w", err)
	}
	return Index{indexer: informer.GetIndexer(), pods: pods.Lister(), index: index, synced: informer.HasSynced}, nil
}

// claimKeys lists the claims of a pod as namespace/name.
func claimKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	// A reference without a name, or an invalid one, has no claim.
	keys := sets.New[string]()
	for name := range resourceclaim.PodClaims(pod) {
		keys.Insert(pod.Namespace + "/" + name)
	}
	return keys.UnsortedList(), nil
}

// Synced reports whether the informer has all pods. In a simulator it never has.
func (p Index) Synced() bool { return p.synced() }

// Of lists the pods that refer to a claim.
func (p Index) Of(claim *resourceapi.ResourceClaim) ([]types.NamespacedName, error) {
	objects, err := p.indexer.ByIndex(p.index, claim.Namespace+"/"+claim.Name)
	if err != nil {
		return nil, fmt.Errorf("pods of claim %s: %w", klog.KObj(claim), err)
	}
	names := make([]types.NamespacedName, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return names, nil
}

// Waits reports whether a pod exists and is not bound yet.
func (p Index) Waits(name types.NamespacedName, uid types.UID) bool {
	pod, err := p.pods.Pods(name.Namespace).Get(name.Name)
	return err == nil && pod.UID == uid && pod.Spec.NodeName == ""
}

// Running reports whether a pod is bound to its node, and neither finished nor being deleted.
func (p Index) Running(pod *corev1.Pod) bool {
	known, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && p.synced() && known.UID == pod.UID && known.Spec.NodeName == pod.Spec.NodeName &&
		known.DeletionTimestamp == nil && !Done(known)
}

// Left reports whether a consumer is a pod that is deleted, finished, or being deleted because it was
// preempted. Pods that are deleted for other reasons may take long.
func (p Index) Left(namespace string, consumer *resourceapi.ResourceClaimConsumerReference) bool {
	if consumer.APIGroup != corev1.GroupName || consumer.Resource != "pods" {
		return false
	}
	pod, err := p.pods.Pods(namespace).Get(consumer.Name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.UID != consumer.UID || Leaves(pod)
}
