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

// ResourceClaimId identifies a claim. The names are those of the package that this one replaces.
//
//nolint:revive // the name is part of the API that is matched
type ResourceClaimId struct {
	Name      string
	Namespace string
}

// GetClaimId returns the identifier of a claim.
//
//nolint:revive // the name is part of the API that is matched
func GetClaimId(claim *resourceapi.ResourceClaim) ResourceClaimId {
	return ResourceClaimId{Name: claim.Name, Namespace: claim.Namespace}
}

// Snapshot has the claims, slices and classes of a cluster at one time, and changes that were made to them
// since. The zero value is not usable.
type Snapshot struct {
	claims journal[ResourceClaimId, *resourceapi.ResourceClaim]
	slices journal[string, published] // by node
	// extended has the claims for extended resources, by the pod's UID.
	extended journal[types.UID, ResourceClaimId]
	classes  map[string]*resourceapi.DeviceClass
	// byResource has the class of each extended resource.
	byResource map[string]*resourceapi.DeviceClass
	rules      []*resourceapi.DeviceTaintRule

	// list has all slices with their taints. listBefore has its value before each open fork. Elements of a list
	// are never overwritten; publish appends in place.
	list       []*resourceapi.ResourceSlice
	listBefore [][]*resourceapi.ResourceSlice

	allocated allocatedState
	changes   changeLog
}

// published are the slices of one node, as given and with taints.
type published struct{ given, tainted []*resourceapi.ResourceSlice }

// ofNoNode is the key for slices that do not belong to one node. No node has an empty name.
const ofNoNode = ""

var _ fwk.SharedDRAManager = &Snapshot{}

// NewSnapshot returns a Snapshot of claims, of slices by the name of their node, of other slices, and of
// classes by name. Objects are kept by pointer and must not be modified afterwards. The maps may be.
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

// SetDeviceTaintRules applies the taints of rules to all slices, including those added later. It has no effect
// if the gate DRADeviceTaintRules is off. It is an error while a fork is open.
func (s *Snapshot) SetDeviceTaintRules(rules []*resourceapi.DeviceTaintRule) error {
	if len(s.listBefore) > 0 {
		return fmt.Errorf("set %d device taint rules: a fork is open", len(rules))
	}
	if !enabled(features.DRADeviceTaintRules) { // this gate requires DRADeviceTaints
		return nil
	}
	s.rules = slices.Clone(rules)
	s.publishAll(s.givenSlices())
	return nil
}

// Fork opens a fork, which Commit or Revert closes. Forks nest.
func (s *Snapshot) Fork() {
	s.claims.fork()
	s.slices.fork()
	s.extended.fork()
	s.listBefore = append(s.listBefore, s.list)
}

// Commit keeps the changes since the last Fork. Without a fork it does nothing.
func (s *Snapshot) Commit() {
	s.claims.commit()
	s.slices.commit()
	s.extended.commit()
	s.listBefore = s.listBefore[:max(0, len(s.listBefore)-1)]
}

// Revert undoes the changes since the last Fork. Without a fork it does nothing.
func (s *Snapshot) Revert() {
	last := len(s.listBefore) - 1
	if last < 0 {
		return
	}
	// The list is clipped, because the memory behind its end belongs to lists that were handed out since.
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

// WalkResourceSlices calls a function for the slices of each node, and for those that do not belong to one, in
// no order, until it returns false.
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
