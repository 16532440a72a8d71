// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// FloorName is the name of the plugin Floor in scheduler configurations.
const FloorName = "Floor"

// Floor is a plugin that knows beforehand which devices serve a claim, and counts how often
// they can be given away. It serves pods with one claim from a template, or with one extended
// resource. What it does is what no plugin can do without: wait for claims, take devices,
// write them to the API server, take them back.
type Floor struct {
	handle fwk.Handle
	claims fwk.ResourceClaimTracker
	stock  *stock
}

var (
	_ fwk.PreEnqueuePlugin  = &Floor{}
	_ fwk.EnqueueExtensions = &Floor{}
	_ fwk.PreFilterPlugin   = &Floor{}
	_ fwk.FilterPlugin      = &Floor{}
	_ fwk.ReservePlugin     = &Floor{}
	_ fwk.PreBindPlugin     = &Floor{}
	_ fwk.SignPlugin        = &Floor{}
)

// NewFloor makes the plugin for one scheduler profile. It takes no arguments.
func NewFloor(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	f := &Floor{handle: handle, claims: handle.SharedDRAManager().ResourceClaims(), stock: newStock()}
	resources := handle.SharedInformerFactory().Resource().V1()
	_, err := resources.ResourceSlices().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if err := f.stock.add(object.(*resourceapi.ResourceSlice)); err != nil {
				klog.FromContext(ctx).Error(err, "Devices of a node are left out")
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("plugin %s: follow slices: %w", FloorName, err)
	}
	_, err = resources.ResourceClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.observe(nil, object) },
		UpdateFunc: f.observe,
		DeleteFunc: func(object any) { f.observe(object, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("plugin %s: follow claims: %w", FloorName, err)
	}
	return f, nil
}

// Name implements Plugin of the framework.
func (f *Floor) Name() string { return FloorName }

// observe keeps the stock up to date. Being told twice does no harm.
func (f *Floor) observe(oldObject, newObject any) {
	before, _ := oldObject.(*resourceapi.ResourceClaim)
	after, _ := newObject.(*resourceapi.ResourceClaim)
	switch {
	case after != nil && after.Status.Allocation != nil:
		f.stock.learn(holderOf(after), after.Status.Allocation)
	case before != nil && before.Status.Allocation != nil:
		f.stock.release(holderOf(before))
	}
}

// holderOf is under whose UID a claim takes devices: the pod's if the scheduler makes the
// claim, whose UID is not known when devices are taken.
func holderOf(claim *resourceapi.ResourceClaim) types.UID {
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
		return owner.UID
	}
	return claim.UID
}

// PreEnqueue implements PreEnqueuePlugin: a pod waits until its claim was made.
func (f *Floor) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if _, err := f.claimOf(pod); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return nil
}

// claimOf returns the claim of a pod, nil if it has none.
func (f *Floor) claimOf(pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[0])
	if err != nil {
		return nil, err
	}
	return f.claims.Get(pod.Namespace, *name)
}

// EventsToRegister implements EnqueueExtensions.
func (f *Floor) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:             fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn:    f.awaited,
			PreQueueingHintFn: f.concerned,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim}},
		// Feeds the scheduler's index of extended resources.
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add}},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add}},
	}, nil
}

// concerned narrows an event of a claim down to the pod that it was made for, unless devices
// came free.
func (f *Floor) concerned(_ klog.Logger, oldObject, newObject any) (fwk.PreQueueingHintResult, error) {
	before, _ := oldObject.(*resourceapi.ResourceClaim)
	after, _ := newObject.(*resourceapi.ResourceClaim)
	// Events get here by another way than to the handler, perhaps ahead of it.
	f.observe(oldObject, newObject)
	if before != nil && before.Status.Allocation != nil && (after == nil || after.Status.Allocation == nil) {
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	}
	if after == nil {
		return fwk.PreQueueingHintResult{}, nil
	}
	var pods []types.NamespacedName
	if owner := metav1.GetControllerOfNoCopy(after); owner != nil {
		pods = append(pods, types.NamespacedName{Namespace: after.Namespace, Name: owner.Name})
	}
	return fwk.PreQueueingHintResult{Pods: pods}, nil
}

// awaited narrows an event of a claim down likewise, pod by pod: not every scheduler asks
// which pods are concerned.
func (f *Floor) awaited(_ klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	before, _ := oldObject.(*resourceapi.ResourceClaim)
	after, _ := newObject.(*resourceapi.ResourceClaim)
	switch {
	case before != nil && before.Status.Allocation != nil && (after == nil || after.Status.Allocation == nil):
		f.observe(oldObject, newObject)
		return fwk.Queue, nil
	case after != nil && metav1.IsControlledBy(after, pod):
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// SignPod implements SignPlugin: pods whose claims ask for the same are alike.
func (f *Floor) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	claim, err := f.claimOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if claim == nil {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: fwk.DynamicResourcesSignerName, Value: claim.Spec}}, nil
}

// PreFilter implements PreFilterPlugin.
func (f *Floor) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	claim, err := f.claimOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	g := &grant{claim: claim}
	if claim == nil {
		if g.claim = f.extendedClaim(pod, g); g.claim == nil {
			return nil, fwk.NewStatus(fwk.Skip)
		}
	}
	state.Write(FloorName, g)
	return nil, nil
}

// PreFilterExtensions implements PreFilterPlugin.
func (f *Floor) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter implements FilterPlugin.
func (f *Floor) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !f.stock.has(node.Node().Name) {
		return fwk.NewStatus(fwk.Unschedulable, "nothing left")
	}
	return nil
}
