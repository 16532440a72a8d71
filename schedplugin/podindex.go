package schedplugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// podsByClaim finds the pods that refer to a claim.
type podsByClaim struct {
	indexer cache.Indexer
	index   string
}

// indexPods adds an index to the scheduler's informer of pods. Each profile has its own,
// as an informer refuses to be given the same one twice.
func indexPods(handle fwk.Handle) (podsByClaim, error) {
	index := "dray-claims-" + handle.ProfileName()
	informer := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{index: claimKeys}); err != nil {
		return podsByClaim{}, fmt.Errorf("index pods by resource claim: %w", err)
	}
	return podsByClaim{indexer: informer.GetIndexer(), index: index}, nil
}

// claimKeys lists the claims of a pod as namespace/name.
func claimKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	keys := sets.New[string]()
	for i := range pod.Spec.ResourceClaims {
		// A claim without a name, or with an invalid reference, has no events.
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys.Insert(pod.Namespace + "/" + *name)
		}
	}
	return keys.UnsortedList(), nil
}

// refersTo reports whether a pod has a claim of that name.
func refersTo(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	if pod.Namespace != claim.Namespace {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil && *name == claim.Name {
			return true
		}
	}
	for i := range pod.Status.ResourceClaimStatuses {
		if name := pod.Status.ResourceClaimStatuses[i].ResourceClaimName; name != nil && *name == claim.Name {
			return true
		}
	}
	return false
}

// of lists the pods that refer to a claim.
func (p podsByClaim) of(claim *resourceapi.ResourceClaim) ([]types.NamespacedName, error) {
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

// podsConcernedByClaim narrows an event down to the pods that it may concern: all of them
// if devices came free, else those that refer to the claim.
func (p *Plugin) podsConcernedByClaim(_ klog.Logger, oldObject, newObject any) (fwk.PreQueueingHintResult, error) {
	p.notice(oldObject, newObject)
	before, _ := oldObject.(*resourceapi.ResourceClaim)
	after, _ := newObject.(*resourceapi.ResourceClaim)
	claim := after
	switch {
	case before == nil && after == nil:
		// An object which was deleted unseen, or of another kind: anything may have changed.
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	case after == nil:
		claim = before
		if before.Status.Allocation != nil {
			return fwk.PreQueueingHintResult{AllPods: true}, nil
		}
	case before != nil && freed(before, after):
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	}
	pods, err := p.pods.of(claim)
	return fwk.PreQueueingHintResult{Pods: pods}, err
}
