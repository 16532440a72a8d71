// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/keys"
)

// check is one rule about single devices.
type check struct {
	reason explain.Reason
	// rejects reports whether a device is rejected, with a detail for explanations. An error means that looking
	// at the device fails. If judge.explains is set, it may add further rejections to judge.found.
	rejects func(*judge, *Device, int32) (detail string, rejected bool, err error)
	// optional checks do not remove a device from those that allocationMode All must have: the request cannot
	// be satisfied then.
	optional bool
}

// checks are all rules about single devices, in the order in which errors count. The search stops at the first
// that rejects a device; an explanation evaluates all. Free counters and capacities, and the compatibility
// groups in use, change during a search: the solver checks these itself.
var checks = []check{
	{reason: explain.RejectedByUse, rejects: (*judge).inUse, optional: true},
	{reason: explain.RejectedByBinding, rejects: (*judge).binding},
	{reason: explain.RejectedBySelector, rejects: (*judge).selectors},
	{rejects: (*judge).elsewhere}, // explanations only cover devices on the node
	{reason: explain.RejectedByCapacity, rejects: (*judge).capacity},
	{reason: explain.RejectedByNodeOperations, rejects: (*judge).operations, optional: true},
	{reason: explain.RejectedByCounter, rejects: (*judge).partitions, optional: true},
	{reason: explain.RejectedByCounter, rejects: (*judge).counters},
	{reason: explain.RejectedByTaint, rejects: (*judge).taints, optional: true},
}

// explanationOrder has the checks in the order in which explanations report them: properties of the device come before
// whether it is in use.
var explanationOrder = slices.Concat(checks[1:4], checks[:1], checks[4:])

// judge applies one filter to the devices of a node.
type judge struct {
	ctx    context.Context
	node   *Node
	filter *Filter
	// use is what the device that is being judged would consume.
	use *Consumption
	// explains is set if all rejections are wanted. They are added to found.
	explains bool
	found    []explain.Rejection
}

func (j *judge) inUse(_ *Device, i int32) (string, bool, error) {
	return "", !j.filter.Admin && j.node.InUse.Test(uint(i)), nil
}

func (j *judge) binding(d *Device, _ int32) (string, bool, error) {
	off := len(d.Object.BindingConditions) > 0 && !j.filter.features.DeviceBindingAndStatus
	return "the feature DRADeviceBindingConditions is off", off, nil
}

// selectors evaluates the selectors, and sets use. For an explanation, it evaluates each selector by itself,
// and reports the rejections of the class that comes closest to matching.
func (j *judge) selectors(d *Device, i int32) (string, bool, error) {
	if !j.explains {
		found, err := j.node.evaluator.Judge(j.ctx, j.filter, d.Shape)
		if err != nil {
			return "", true, err
		}
		if j.use = found.Use; j.use == nil && j.node.isShared(i) {
			j.use = j.filter.consumption(d.Shape)
		}
		return "", found.Offer < 0, nil
	}
	var closest []explain.Rejection
	for o, selectors := range j.filter.offers {
		if reasons := j.askEach(selectors, notesOf(d.Shape)); o == 0 || closeness(reasons) > closeness(closest) {
			closest = reasons
		}
	}
	j.found = append(j.found, closest...)
	j.use = j.filter.consumption(d.Shape)
	return "", false, nil
}

func (j *judge) askEach(selectors []Selector, of *notes) (reasons []explain.Rejection) {
	for k := range selectors {
		s := &selectors[k]
		rejectedBy, err := j.node.evaluator.matches(j.ctx, selectors[k:k+1], of)
		name, unknown := of.unknown(s.program)
		r := explain.Rejection{Reason: explain.RejectedBySelector, Devices: 1}
		switch {
		case err != nil:
			r.Detail = err.Error()
		case unknown:
			r.Reason, r.Detail = explain.RejectedByUnknown, name.String()+", which "+s.Origin()+" reads"
		case rejectedBy < 0:
			continue
		default:
			r.Detail, r.Selector = s.Origin()+": "+s.Expression, ptr.To(s.Selector)
		}
		reasons = append(reasons, r)
	}
	return reasons
}

// closeness is higher for a device that matches the selectors of the class, and highest if no selector rejects
// it.
func closeness(reasons []explain.Rejection) int {
	switch at := slices.IndexFunc(reasons, func(r explain.Rejection) bool { return r.Reason == explain.RejectedBySelector }); {
	case at < 0:
		return 2
	case !reasons[at].OfClass():
		return 1
	}
	return 0
}

func (j *judge) elsewhere(d *Device, _ int32) (string, bool, error) {
	return "", !d.OnNode, d.SelectorErr
}

// capacity compares the request with the whole device. For an explanation, it also looks at what is in use.
func (j *judge) capacity(d *Device, _ int32) (string, bool, error) {
	switch {
	case j.use == nil:
		return "", false, nil
	case j.use.Err != nil || j.use.Refusal != "" || !j.explains:
		return j.use.Refusal, j.use.Refusal != "", j.use.Err
	}
	name := j.use.short(j.node.Used[d.Pool], d.Index)
	return "too little is left of capacity " + name, name != "", nil
}

// operations rejects devices that skip node operations, unless the feature is on and the node declares it.
func (j *judge) operations(d *Device, _ int32) (string, bool, error) {
	switch {
	case len(d.Slice.Object.Spec.SkipNodeOperations) == 0:
		return "", false, nil
	case !j.filter.features.OptionalNodeOperations:
		return "the feature DRAOptionalNodeOperations is off", true, nil
	}
	return "the node does not declare the feature DRAOptionalNodeOperations", !keys.OperatesOptionally(j.node.Object), nil
}

func (j *judge) partitions(d *Device, _ int32) (string, bool, error) {
	return "the feature DRAPartitionableDevices is off", d.ConsumesCounters && !j.filter.features.PartitionableDevices, nil
}

// counters adds rejections for an explanation: the free counters of the pool, or the groups in use, do not
// admit the device. It never rejects by itself, as the solver checks these.
func (j *judge) counters(d *Device, i int32) (string, bool, error) {
	if !j.explains || !d.ConsumesCounters || d.Shareable && j.node.isShared(i) {
		return "", false, nil
	}
	used, of := j.node.Used[d.Pool], j.node.Pools[d.Pool]
	if !used.Admits(d.Device) {
		j.found = append(j.found, explain.Rejection{Reason: explain.RejectedByGroup, Devices: 1})
		return "", false, nil
	}
	counter, format := -1, "too little is left of %s"
	if at := slices.IndexFunc(d.Uses, func(use pool.CounterUse) bool { return used.Left[use.Counter].Cmp(use.Amount) < 0 }); at >= 0 {
		counter = int(d.Uses[at].Counter)
	} else {
		format = "%s of the pool is overdrawn"
		for c, left := range used.Left {
			if left.Sign() < 0 && !restores(d, pool.CounterIndex(c)) {
				counter = c
				break
			}
		}
	}
	if counter >= 0 {
		short := &of.Counters[counter]
		j.found = append(j.found, explain.Rejection{
			Reason: explain.RejectedByCounter, Detail: fmt.Sprintf(format, short.Name), Devices: 1,
			Counter: &explain.Counter{Set: of.CounterSets[short.Set].Name, Name: short.Name},
		})
	}
	return "", false, nil
}

// restores reports whether a device has a negative consumption of a counter.
func restores(d *Device, counter pool.CounterIndex) bool {
	return slices.ContainsFunc(d.Uses, func(use pool.CounterUse) bool { return use.Counter == counter && use.Amount.Sign() < 0 })
}

func (j *judge) taints(d *Device, _ int32) (string, bool, error) {
	taint := j.filter.untolerated(d.Object.Taints)
	if taint == nil || !j.explains {
		return "", taint != nil, nil
	}
	text := taint.Key
	if taint.Value != "" {
		text += "=" + taint.Value
	}
	return text + ":" + string(taint.Effect), true, nil
}

// untolerated returns the first taint that the request does not tolerate, nil if there is none (KEP-5055).
// Effects other than NoSchedule and NoExecute are ignored.
func (f *Filter) untolerated(taints []resourceapi.DeviceTaint) *resourceapi.DeviceTaint {
	if !f.features.DeviceTaints {
		return nil
	}
	for i := range taints {
		taint := &taints[i]
		blocks := taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
		if blocks && !slices.ContainsFunc(f.Tolerations, func(t resourceapi.DeviceToleration) bool { return tolerates(&t, taint) }) {
			return taint
		}
	}
	return nil
}

// tolerates applies the rule of the API: an empty effect or key of the toleration matches any.
func tolerates(t *resourceapi.DeviceToleration, taint *resourceapi.DeviceTaint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case resourceapi.DeviceTolerationOpExists:
		return true
	case resourceapi.DeviceTolerationOpEqual, "":
		return t.Value == taint.Value
	}
	return false
}
