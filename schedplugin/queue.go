// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/wake"
)

// PreEnqueue keeps a pod out of the active queue while a claim of it is missing, being deleted, or owned by
// another pod. The events of EventsToRegister call it again.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	if !p.enabled() {
		return nil
	}
	if _, err := p.source.Resolve(pod); err != nil {
		return unresolvable(klog.FromContext(ctx), err.Error(), "pod", klog.KObj(pod))
	}
	return nil
}

// EventsToRegister lists the events that may make a rejected pod schedulable, with their queueing hints.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if !p.enabled() {
		return nil, nil
	}
	if hasInTreePlugin(p.handle) { // it is called after all profiles were created
		return nil, errInTreePlugin
	}
	events := p.hints.Events()
	if p.features.EnableGenericWorkload {
		events = append(events, wake.GroupEvent())
	}
	return events, nil
}

// SignPod returns the part of a pod's signature that devices decide. The framework reuses results for pods
// with equal signatures. That needs devices of one pod to change nothing on other nodes. So the claims must
// be the pod's own and not allocated, and every device must belong to one node. Without claims and extended
// resources, the part is empty.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	extended := p.enabled() && p.source.AsksForExtended(pod)
	if !p.enabled() || len(pod.Spec.ResourceClaims) == 0 && !extended {
		return nil, nil
	}
	unsigned := func(why string) ([]fwk.SignFragment, *fwk.Status) {
		return nil, fwk.NewStatus(fwk.Unschedulable, why)
	}
	if p.features.EnableDRANodeAllocatableResources {
		return unsigned("devices may take of what nodes have")
	}
	claims, err := p.source.Resolve(pod)
	if err != nil {
		return unsigned(err.Error())
	}
	signed := make([]claimstate.Asked, 0, len(claims))
	for _, claim := range claims {
		if !claim.IsOwn(pod) {
			return unsigned("claims that pods can share are not signed")
		}
		if claim.Object.Status.Allocation != nil || p.dra.ResourceClaims().GetPendingAllocation(claim.Object.UID) != nil {
			return unsigned("allocated claims are not signed")
		}
		signed = append(signed, claim.Asked())
	}
	if !p.hints.Slices.NodeLocal() {
		return unsigned("there are devices that several nodes can reach")
	}
	// Extended resources are container requests, which other plugins sign.
	return []fwk.SignFragment{{Key: fwk.DynamicResourcesSignerName, Value: signed}}, nil
}
