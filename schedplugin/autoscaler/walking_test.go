// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/autoscaler"
)

// walking is a Snapshot that adds up what claims hold each time it is asked, as the releases of
// cluster-autoscaler do.
type walking struct{ *autoscaler.Snapshot }

func (w walking) ResourceClaims() fwk.ResourceClaimTracker {
	return walkingTracker{w.Snapshot.ResourceClaims()}
}

type walkingTracker struct{ fwk.ResourceClaimTracker }

func (t walkingTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	state, err := t.GatherAllocatedState()
	return state.AllocatedDevices, err
}

func (t walkingTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	claims, err := t.List()
	return allocatedState(claims), err
}
