// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// placement gives a device to a request. Lists of placements are in the order of
// claims, requests and results.
type placement struct {
	want   *want
	device *device
}

// check applies every rule that must hold for a complete answer and for every part
// of one that comes first: adding a placement never repairs a broken rule.
func (w *world) check(placements []placement) error {
	for i, p := range placements {
		if err := errors.Join(w.checkDevice(p), w.checkFree(p, placements[:i]), w.checkCapacity(p, placements[:i])); err != nil {
			return fmt.Errorf("claim %d request %s device %s: %w", p.want.claim, p.want.name, p.device.id, err)
		}
	}
	return errors.Join(
		w.checkCounters(placements),
		w.checkGroups(placements),
		w.checkConstraints(placements),
		w.checkLimit(placements),
	)
}

// checkDevice applies what concerns the device and the request alone.
func (w *world) checkDevice(p placement) error {
	match, err := w.matches(p.device, p.want)
	if err != nil {
		return err
	}
	if !match {
		return errors.New("selectors do not match")
	}
	d, f := p.device.api, w.c.Features
	switch {
	case len(d.BindingConditions) > 0 && !f.DeviceBindingAndStatus:
		return errors.New("has binding conditions, which are off")
	case len(d.ConsumesCounters) > 0 && !f.PartitionableDevices:
		return errors.New("consumes counters, which are off")
	case len(p.device.slice.Spec.SkipNodeOperations) > 0 && !w.skipsOperations():
		return errors.New("skips operations that the node cannot skip")
	}
	if !f.DeviceTaints {
		return nil
	}
	for _, taint := range d.Taints {
		if blocks(taint) && !tolerated(taint, p.want.tolerations) {
			return fmt.Errorf("taint %s is not tolerated", taint.Key)
		}
	}
	return nil
}

func (w *world) skipsOperations() bool {
	return w.c.Features.OptionalNodeOperations &&
		slices.Contains(w.node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

func blocks(taint resourceapi.DeviceTaint) bool {
	return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
}

func tolerated(taint resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) bool {
	return slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool {
		return resourceclaim.ToleratesTaint(t, taint)
	})
}

// checkFree: a request gets a device once; a device that is not shared is taken once,
// except that admin access only rules out what its own claim already has.
func (w *world) checkFree(p placement, before []placement) error {
	admin := p.want.adminAccess()
	if !admin && w.exclusive[p.device.id] {
		return errors.New("is in use")
	}
	for _, other := range before {
		switch {
		case other.device != p.device:
		case other.want == p.want:
			return errors.New("is allocated twice for the request")
		case !w.shared(p.device) && (!admin || other.want.claim == p.want.claim):
			return fmt.Errorf("is already taken by claim %d request %s", other.want.claim, other.want.name)
		}
	}
	return nil
}

func (w *world) checkLimit(placements []placement) error {
	perClaim := make(map[int]int)
	for _, p := range placements {
		perClaim[p.want.claim]++
		if perClaim[p.want.claim] > resourceapi.AllocationResultsMaxSize {
			return fmt.Errorf("claim %d has more than %d devices", p.want.claim, resourceapi.AllocationResultsMaxSize)
		}
	}
	return nil
}
