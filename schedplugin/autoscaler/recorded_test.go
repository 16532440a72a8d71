// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin"
)

// recorded names a plugin that knows the answer. What it takes is what framework, snapshot and the
// autoscaler itself take: no plugin takes less.
const recorded = "Recorded"

// records are where pods went, and what their claims hold there.
type records struct {
	nodes       map[types.UID]string
	allocations map[types.UID]*resourceapi.AllocationResult
	// made are the claims for extended resources, by pod.
	made map[types.UID]*resourceapi.ResourceClaim
}

func newRecords() *records {
	return &records{nodes: make(map[types.UID]string), allocations: make(map[types.UID]*resourceapi.AllocationResult), made: make(map[types.UID]*resourceapi.ResourceClaim)}
}

// take notes what there is now.
func (r *records) take(t testing.TB, s *simulation) {
	t.Helper()
	for name, host := range s.hosts {
		for _, pod := range host.pods {
			r.nodes[pod.UID] = name
		}
	}
	claims, err := s.dra.ResourceClaims().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims {
		r.allocations[claim.UID] = claim.Status.Allocation
		if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
			made := *claim
			made.Name, _, _ = strings.Cut(claim.Name, "/")
			made.Status.ReservedFor = nil
			r.made[owner.UID] = &made
		}
	}
}

// plugin makes the plugin.
func (r *records) plugin(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &replay{r, handle.SharedDRAManager()}, nil
}

type replay struct {
	*records
	dra fwk.SharedDRAManager
}

var (
	_ fwk.PreFilterPlugin = &replay{}
	_ fwk.FilterPlugin    = &replay{}
	_ fwk.ReservePlugin   = &replay{}
)

func (*replay) Name() string                                 { return schedplugin.Name }
func (*replay) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (*replay) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (r *replay) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if r.nodes[pod.UID] == node.Node().Name {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not there")
}

func (r *replay) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if made := r.made[pod.UID]; made != nil {
		return fwk.AsStatus(r.dra.ResourceClaims().SignalClaimPendingAllocation(made.UID, made))
	}
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return fwk.AsStatus(err)
		}
		claim, err := r.dra.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return fwk.AsStatus(err)
		}
		if claim.Status.Allocation != nil {
			continue
		}
		allocated := *claim
		allocated.Status.Allocation = r.allocations[claim.UID]
		if err := r.dra.ResourceClaims().SignalClaimPendingAllocation(claim.UID, &allocated); err != nil {
			return fwk.AsStatus(err)
		}
	}
	return nil
}

func (*replay) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}
