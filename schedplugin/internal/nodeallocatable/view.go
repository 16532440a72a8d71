// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeallocatable

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
)

// handle is the framework handle that the in-tree plugin gets: with a view of claims and slices. Its informer
// factory is never started, so that the plugin adds no index to the scheduler's informers.
type handle struct {
	fwk.Handle
	view         *view
	neverStarted informers.SharedInformerFactory
}

func (h *handle) SharedDRAManager() fwk.SharedDRAManager                 { return h.view }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.neverStarted }

// view has the claims of one pod, and the slices of their devices' pools.
type view struct {
	fwk.SharedDRAManager
	tracker
	slices []*resourceapi.ResourceSlice
}

// tracker has the claims by name.
type tracker struct {
	fwk.ResourceClaimTracker
	claims map[string]*resourceapi.ResourceClaim
}

func (v *view) ResourceClaims() fwk.ResourceClaimTracker { return v.tracker }
func (v *view) ResourceSlices() fwk.ResourceSliceLister  { return v }

// ListWithDeviceTaintRules implements ResourceSliceLister.
func (v *view) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) { return v.slices, nil }

// Get implements ResourceClaimTracker.
func (t tracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim := t.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, fmt.Errorf("claim %s/%s: %w", namespace, name, errUnknown)
}

var errUnknown = errors.New("is not one of the pod")

// withClaims returns the pod with a reference by name to each claim.
func withClaims(pod *corev1.Pod, claims []Claim) *corev1.Pod {
	as := *pod
	as.Spec.ResourceClaims = make([]corev1.PodResourceClaim, len(claims))
	for i, claim := range claims {
		as.Spec.ResourceClaims[i] = corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Object.Name}
	}
	return &as
}
