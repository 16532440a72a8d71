// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"

	"github.com/dray-project/dray/podclaims"
)

// ResourceClaimId identifies a claim. The names are those of the package whose place this one
// takes.
//
//nolint:revive // the name is part of the API that is matched
type ResourceClaimId struct {
	Name      string
	Namespace string
}

// GetClaimId returns what identifies a claim.
//
//nolint:revive // the name is part of the API that is matched
func GetClaimId(claim *resourceapi.ResourceClaim) ResourceClaimId {
	return ResourceClaimId{Name: claim.Name, Namespace: claim.Namespace}
}

// Snapshot has the claims, slices and classes of a cluster at one moment, and what was done to
// them since. The zero value is not usable.
type Snapshot struct {
	claims journal[ResourceClaimId, *resourceapi.ResourceClaim]
	slices journal[string, published] // by node
	// extended are the claims for the extended resources of pods, by the pod's UID.
	extended journal[types.UID, ResourceClaimId]
	classes  map[string]*resourceapi.DeviceClass
	// byResource has the classes of extended resources.
	byResource map[string]*resourceapi.DeviceClass
	rules      []*resourceapi.DeviceTaintRule

	// list has all slices with their taints, listBefore what it was before each open fork. What a
	// list has does not change; behind its end there is room for the next one.
	list       []*resourceapi.ResourceSlice
	listBefore [][]*resourceapi.ResourceSlice

	allocated allocatedState
	changes   changeLog
}

// published are the slices of one node.
type published struct{ given, tainted []*resourceapi.ResourceSlice }

// ofNoNode is where slices are kept that are not of one node. It is no name of a node.
const ofNoNode = ""

var _ fwk.SharedDRAManager = &Snapshot{}

// NewSnapshot returns a Snapshot of claims, of slices by the node that they name, of other slices
// and of classes by name. Objects are kept by pointer and must not be modified afterwards; the maps
// may be.
func NewSnapshot(claims map[ResourceClaimId]*resourceapi.ResourceClaim, nodeLocalSlices map[string][]*resourceapi.ResourceSlice, nonNodeLocalSlices []*resourceapi.ResourceSlice, deviceClasses map[string]*resourceapi.DeviceClass) *Snapshot {
	s := &Snapshot{
		claims:   newJournal(claims),
		slices:   newJournal[string, published](nil),
		extended: newJournal[types.UID, ResourceClaimId](nil),
		classes:  make(map[string]*resourceapi.DeviceClass, len(deviceClasses)),
	}
	maps.Copy(s.classes, deviceClasses)
	s.allocated.shareable = enabled(features.DRAConsumableCapacity)
	for id, claim := range claims {
		if owner := extendedFor(claim); owner != "" {
			s.extended.set(owner, id)
		}
	}
	s.byResource = make(map[string]*resourceapi.DeviceClass)
	for name, class := range podclaims.ClassesByResource(slices.Collect(maps.Values(deviceClasses))) {
		s.byResource[string(name)] = class
	}
	byNode := make(map[string][]*resourceapi.ResourceSlice, len(nodeLocalSlices)+1)
	maps.Copy(byNode, nodeLocalSlices)
	if len(nonNodeLocalSlices) > 0 {
		byNode[ofNoNode] = nonNodeLocalSlices
	}
	s.publishAll(byNode)
	return s
}

// NewEmptySnapshot returns a Snapshot without objects.
func NewEmptySnapshot() *Snapshot { return NewSnapshot(nil, nil, nil, nil) }

func enabled(gate featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(gate) }

// SetDeviceTaintRules has the taints of rules applied to all slices, those that are added later as
// well. It has no effect if the gate DRADeviceTaintRules is off. It is an error while a fork is open.
func (s *Snapshot) SetDeviceTaintRules(rules []*resourceapi.DeviceTaintRule) error {
	if len(s.listBefore) > 0 {
		return fmt.Errorf("set %d device taint rules: a fork is open", len(rules))
	}
	if !enabled(features.DRADeviceTaintRules) { // which needs DRADeviceTaints
		return nil
	}
	s.rules = slices.Clone(rules)
	s.publishAll(s.givenSlices())
	return nil
}

// Fork begins a what-if. Forks nest.
func (s *Snapshot) Fork() {
	s.claims.fork()
	s.slices.fork()
	s.extended.fork()
	s.listBefore = append(s.listBefore, s.list)
}

// Commit keeps what was done since the last Fork. Without one it does nothing.
func (s *Snapshot) Commit() {
	s.claims.commit()
	s.slices.commit()
	s.extended.commit()
	s.listBefore = s.listBefore[:max(0, len(s.listBefore)-1)]
}

// Revert takes back what was done since the last Fork. Without one it does nothing.
func (s *Snapshot) Revert() {
	last := len(s.listBefore) - 1
	if last < 0 {
		return
	}
	// Clipped, as what is behind its end belongs to lists that were handed out since.
	s.list, s.listBefore = slices.Clip(s.listBefore[last]), s.listBefore[:last]
	s.slices.revert(nil)
	s.extended.revert(nil)
	s.claims.revert(s.changed)
}

// WalkDeviceClasses calls a function for each class, in no order, until it returns false.
func (s *Snapshot) WalkDeviceClasses(f func(*resourceapi.DeviceClass) bool) { walk(s.classes, f) }

// WalkResourceClaims calls a function for each claim, in no order, until it returns false.
func (s *Snapshot) WalkResourceClaims(f func(*resourceapi.ResourceClaim) bool) {
	walk(s.claims.now, f)
}

// WalkResourceSlices calls a function for the slices of each node, and for those of no node, in no
// order, until it returns false.
func (s *Snapshot) WalkResourceSlices(f func([]*resourceapi.ResourceSlice) bool) {
	walk(s.slices.now, func(of published) bool { return f(of.given) })
}

func walk[K comparable, V any](all map[K]V, f func(V) bool) {
	for _, value := range all {
		if !f(value) {
			return
		}
	}
}
