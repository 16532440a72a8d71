package eligibility

import (
	"context"
	"fmt"

	"github.com/dray-project/dray/internal/index/pool"
)

// Reason is a kind of rejection.
type Reason string

// The kinds of rejections, in the order of the checks.
const (
	InUse          Reason = "in-use"
	Binding        Reason = "binding"
	BySelector     Reason = "selector"
	ByUnknown      Reason = "unknown"
	ByNode         Reason = "node"
	ByCapacity     Reason = "capacity"
	NodeOperations Reason = "node-operations"
	ByGroup        Reason = "group"
	ByCounter      Reason = "counter"
	Tainted        Reason = "taint"
)

// Rejection is a reason for which a device cannot serve a request. Detail names the selector,
// taint, counter or capacity.
type Rejection struct {
	Reason Reason
	Detail string
	// Selector is the one that the device does not match. Nil if that is not the reason, and if
	// evaluating it failed.
	Selector *Selector
	// CounterSet and Counter name the counter of which there is too little. Empty if that is
	// not the reason.
	CounterSet, Counter string
}

// check is one rule about single devices.
type check struct {
	// rejects reports whether a device is rejected. An error is one of looking at it.
	rejects func(*judge, *Device, int32) (bool, error)
	// explain lists the rejections, at least one if rejects is true or there is an error.
	explain func(*judge, *Device, int32, func(Rejection))
	// optional checks do not keep a device from being mandatory for a request for all devices:
	// such a request cannot be met then.
	optional bool
}

// checks are all rules about single devices, in the order in which errors count. The search stops
// at the first that rejects a device, an explanation asks them all. What is left of counters and
// capacities, and which groups are there, changes during a search: the search asks for it itself.
var checks = []check{
	{
		optional: true,
		rejects:  func(j *judge, _ *Device, i int32) (bool, error) { return j.inUse(i), nil },
		explain: func(j *judge, _ *Device, i int32, add func(Rejection)) {
			if j.inUse(i) {
				add(Rejection{Reason: InUse})
			}
		},
	},
	{rejects: (*judge).binding, explain: simply(Binding, (*judge).binding, "the feature DRADeviceBindingConditions is off")},
	{rejects: (*judge).selected, explain: (*judge).explainSelectors},
	{rejects: (*judge).elsewhere, explain: (*judge).explainNode},
	{rejects: (*judge).lacksCapacity, explain: (*judge).explainCapacity},
	{
		optional: true,
		rejects:  func(j *judge, d *Device, _ int32) (bool, error) { return j.skipsOperations(d) != "", nil },
		explain: func(j *judge, d *Device, _ int32, add func(Rejection)) {
			if why := j.skipsOperations(d); why != "" {
				add(Rejection{Reason: NodeOperations, Detail: why})
			}
		},
	},
	{
		optional: true,
		rejects:  (*judge).partitions,
		explain:  simply(ByCounter, (*judge).partitions, "the feature DRAPartitionableDevices is off"),
	},
	{
		rejects: func(*judge, *Device, int32) (bool, error) { return false, nil },
		explain: (*judge).explainCounters,
	},
	{
		optional: true,
		rejects: func(j *judge, d *Device, _ int32) (bool, error) {
			return untolerated(j.node.features, d.Object.Taints, j.filter.tolerations) != nil, nil
		},
		explain: func(j *judge, d *Device, _ int32, add func(Rejection)) {
			if taint := untolerated(j.node.features, d.Object.Taints, j.filter.tolerations); taint != nil {
				add(Rejection{Reason: Tainted, Detail: taintText(taint)})
			}
		},
	},
}

// simply explains a check that has one detail.
func simply(reason Reason, rejects func(*judge, *Device, int32) (bool, error), detail string) func(*judge, *Device, int32, func(Rejection)) {
	return func(j *judge, d *Device, i int32, add func(Rejection)) {
		if rejected, _ := rejects(j, d, i); rejected {
			add(Rejection{Reason: reason, Detail: detail})
		}
	}
}

// judge applies one filter to the devices of a node.
type judge struct {
	ctx    context.Context
	node   *Node
	filter *Filter
	// use is what the device that is being judged would be charged with.
	use *Consumption
}

func (j *judge) inUse(i int32) bool { return !j.filter.Admin && j.node.InUse.Test(uint(i)) }

func (j *judge) binding(d *Device, _ int32) (bool, error) {
	return len(d.Object.BindingConditions) > 0 && !j.node.features.DeviceBindingAndStatus, nil
}

// selected asks the selectors, and notes what the device would be charged with.
func (j *judge) selected(d *Device, i int32) (bool, error) {
	found, err := j.node.evaluator.Judge(j.ctx, j.filter, d.Shape, j.node.isShared(i))
	j.use = found.Use
	return err != nil || found.RejectedBy >= 0, err
}

// explainSelectors asks each selector by itself.
func (j *judge) explainSelectors(d *Device, _ int32, add func(Rejection)) {
	for k := range j.filter.Selectors {
		s := &j.filter.Selectors[k]
		rejectedBy, err := j.node.evaluator.matches(j.ctx, j.filter.Selectors[k:k+1], notesOf(d.Shape))
		name, unknown := notesOf(d.Shape).unknown(s.program)
		switch {
		case err != nil:
			add(Rejection{Reason: BySelector, Detail: err.Error()})
		case unknown:
			add(Rejection{Reason: ByUnknown, Detail: name.String() + ", which " + s.Origin() + " reads"})
		case rejectedBy >= 0:
			add(Rejection{Reason: BySelector, Detail: s.Origin() + ": " + s.Expression, Selector: s})
		}
	}
}

func (j *judge) elsewhere(d *Device, _ int32) (bool, error) {
	return d.SelectorErr != nil || !d.OnNode, d.SelectorErr
}

func (j *judge) explainNode(d *Device, _ int32, add func(Rejection)) {
	switch {
	case d.SelectorErr != nil:
		add(Rejection{Reason: ByNode, Detail: d.SelectorErr.Error()})
	case !d.OnNode:
		add(Rejection{Reason: ByNode})
	}
}

// lacksCapacity is about what a device has when nothing of it is in use.
func (j *judge) lacksCapacity(*Device, int32) (bool, error) {
	return j.use != nil && (j.use.Err != nil || j.use.Refusal != ""), j.useErr()
}

func (j *judge) useErr() error {
	if j.use == nil {
		return nil
	}
	return j.use.Err
}

func (j *judge) explainCapacity(d *Device, _ int32, add func(Rejection)) {
	if !j.node.features.ConsumableCapacity {
		return
	}
	use := newConsumption(j.node.features, j.filter.Capacity, d.Shape.Device)
	switch {
	case use.Err != nil:
		add(Rejection{Reason: ByCapacity, Detail: use.Err.Error()})
	case use.Refusal != "":
		add(Rejection{Reason: ByCapacity, Detail: use.Refusal})
	default:
		if name := use.short(j.node.Used[d.Pool], d.Index); name != "" {
			add(Rejection{Reason: ByCapacity, Detail: "too little is left of capacity " + name})
		}
	}
}

// skipsOperations says why a device that skips node operations is out of reach, if it is.
func (j *judge) skipsOperations(d *Device) string {
	switch {
	case len(d.Slice.Object.Spec.SkipNodeOperations) == 0:
		return ""
	case !j.node.features.OptionalNodeOperations:
		return "the feature DRAOptionalNodeOperations is off"
	case !OperatesOptionally(j.node.Object):
		return "the node does not declare the feature DRAOptionalNodeOperations"
	}
	return ""
}

func (j *judge) partitions(d *Device, _ int32) (bool, error) {
	return d.ConsumesCounters && !j.node.features.PartitionableDevices, nil
}

// explainCounters tells why the counters and groups of a pool, as they are now, keep a device from
// being allocated.
func (j *judge) explainCounters(d *Device, i int32, add func(Rejection)) {
	if !d.ConsumesCounters || d.Shareable && j.node.isShared(i) {
		return
	}
	own, used := j.node.Pools[d.Pool], j.node.Used[d.Pool]
	if j.node.features.CompatibilityGroups {
		for _, use := range d.Groups {
			if !used.Groups[use.Set].Admits(use.Groups) {
				add(Rejection{Reason: ByGroup})
				return
			}
		}
	}
	for _, use := range d.Uses {
		if used.Left[use.Counter].Cmp(use.Amount) < 0 {
			add(shortOf(own, use.Counter, "too little is left of %s"))
			return
		}
	}
	for c, left := range used.Left {
		if left.Sign() < 0 && !restores(d, c) {
			add(shortOf(own, pool.CounterIndex(c), "%s of the pool is overdrawn"))
			return
		}
	}
}

func shortOf(p *pool.Pool, counter pool.CounterIndex, format string) Rejection {
	short := &p.Counters[counter]
	return Rejection{Reason: ByCounter, Detail: fmt.Sprintf(format, short.Name), CounterSet: p.CounterSets[short.Set].Name, Counter: short.Name}
}

// restores reports whether a device consumes less than nothing of a counter.
func restores(d *Device, counter int) bool {
	for _, use := range d.Uses {
		if int(use.Counter) == counter && use.Amount.Sign() < 0 {
			return true
		}
	}
	return false
}
