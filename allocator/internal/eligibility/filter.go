// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"fmt"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
)

// Terms are what a request says about single devices.
type Terms struct {
	// Offers are the classes that may serve it, by preference. A device is of the first that has it.
	// There is at least one.
	Offers   []Offer
	Capacity *resourceapi.CapacityRequirements
	// All asks for every matching device.
	All         bool
	Admin       bool
	Tolerations []resourceapi.DeviceToleration
}

// Offer is a class that may serve a request, with the selectors of the request for its devices.
type Offer struct {
	Class     *resourceapi.DeviceClass
	Selectors []resourceapi.DeviceSelector
}

// ofRequests are the rows that requests and subrequests have with the same name.
func ofRequests(paths ...string) (rows []keys.Row) {
	for _, path := range paths {
		rows = append(rows, keys.Rows(reads.Claim, "Spec.Devices.Requests[].Exactly."+path, "Spec.Devices.Requests[].FirstAvailable[]."+path)...)
	}
	return rows
}

// Selected is what a Selection depends on.
var Selected = keys.Writer[*Terms]{
	{Covers: ofRequests("DeviceClassName"), Write: func(k *memo.Key, t *Terms) {
		k.Number(len(t.Offers))
		for _, offer := range t.Offers {
			k.Text(offer.Class.Name)
		}
	}},
	{Covers: keys.Rows(reads.Class, "Spec.Selectors[].CEL.Expression"), Write: func(k *memo.Key, t *Terms) {
		for _, offer := range t.Offers {
			appendSelectors(k, offer.Class.Spec.Selectors)
		}
	}},
	{Covers: ofRequests("Selectors[].CEL.Expression"), Write: func(k *memo.Key, t *Terms) {
		for _, offer := range t.Offers {
			appendSelectors(k, offer.Selectors)
		}
	}},
	{Covers: ofRequests("Capacity.Requests[]"), Write: func(k *memo.Key, t *Terms) {
		if k.Flags(t.Capacity != nil); t.Capacity != nil {
			k.Number(len(t.Capacity.Requests))
			for name, value := range sorted(t.Capacity.Requests) {
				k.Text(string(name))
				keys.AppendQuantity(k, &value)
			}
		}
	}},
}

// Filtered is what a Filter depends on beside its selection.
var Filtered = keys.Writer[*Terms]{
	{Covers: ofRequests("AllocationMode"), Write: func(k *memo.Key, t *Terms) { k.Flags(t.All) }},
	{Covers: keys.Rows(reads.Claim, "Spec.Devices.Requests[].Exactly.AdminAccess"), Write: func(k *memo.Key, t *Terms) { k.Flags(t.Admin) }},
	{Covers: nil, Write: func(k *memo.Key, t *Terms) {
		k.Number(len(t.Tolerations))
		for i := range t.Tolerations {
			Tolerated.Append(k, &t.Tolerations[i])
		}
	}},
}

// Tolerated is what is seen of a toleration.
var Tolerated = keys.Writer[*resourceapi.DeviceToleration]{
	{Covers: keys.Rows(reads.Toleration, "Key"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(t.Key) }},
	{Covers: keys.Rows(reads.Toleration, "Operator"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(string(t.Operator)) }},
	{Covers: keys.Rows(reads.Toleration, "Value"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(t.Value) }},
	{Covers: keys.Rows(reads.Toleration, "Effect"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(string(t.Effect)) }},
}

// AppendKey appends all that terms say about devices. What is there up to the length that it returns makes
// a selection.
func (t *Terms) AppendKey(k *memo.Key) (selection int) {
	Selected.Append(k, t)
	selection = len(k.Bytes)
	Filtered.Append(k, t)
	return selection
}

func appendSelectors(k *memo.Key, all []resourceapi.DeviceSelector) {
	k.Number(len(all))
	for i := range all {
		k.Flags(all[i].CEL != nil)
		if all[i].CEL != nil {
			k.Text(all[i].CEL.Expression)
		}
	}
}

// Filter decides about single devices of a problem, whatever else is chosen.
type Filter struct {
	*Selection
	*Terms
}

// AppendKey appends what the filter says of devices. Equal keys are of the same Evaluator.
func (f *Filter) AppendKey(k *memo.Key) {
	k.Number(int(f.id))
	Filtered.Append(k, f.Terms)
}

// Selection is what filters say of shapes, and so of all devices of a shape: the selectors of each class,
// and the capacity that is asked for. Equal ones are the same for all problems of an Evaluator, so that
// shapes are judged once. It is immutable but for what it remembers.
type Selection struct {
	id       int64 // unique within the Evaluator
	features Features
	offers   [][]Selector
	capacity *resourceapi.CapacityRequirements
	// reads is what the selectors read, projection the devices as the selection sees them. Both are nil if
	// that is not known.
	reads      Reads
	projection *Projection
	// judgements are by number in the projection.
	judgements [maxNumbers + 1]atomic.Pointer[Judgement]
}

// Filter makes a filter, given the key of its selection. The error says that there is a selector of an
// unsupported kind.
func (e *Evaluator) Filter(t *Terms, selection []byte) (*Filter, error) {
	key := string(selection)
	if known, ok := e.selections.Get(key); ok {
		return &Filter{known.(*Selection), t}, nil
	}
	// The selection outlives the claim, so it has a copy of its own.
	s := &Selection{id: e.ids.Add(1), features: e.features, capacity: t.Capacity.DeepCopy()}
	for i, offer := range t.Offers {
		selectors, err := e.selectors(nil, offer.Class.Name, offer.Class.Spec.Selectors)
		if err == nil {
			selectors, err = e.selectors(selectors, "", offer.Selectors)
		}
		switch {
		case err != nil && i > 0:
			return nil, fmt.Errorf("class %d beside it: %w", i-1, err)
		case err != nil:
			return nil, err
		}
		s.offers = append(s.offers, selectors)
	}
	if s.reads = readsOf(s.offers); s.reads != nil && !e.off {
		s.projection = e.projection(s.reads, nil, t.Capacity != nil, "")
	}
	e.selections.Add(key, s)
	return &Filter{s, t}, nil
}

// Selector is one CEL selector of a class or a request.
type Selector struct {
	explain.Selector
	program *cel.Program
	// err is set if the expression does not compile. It only counts once a device is looked
	// at, as in kube-scheduler.
	err error
}

// Origin says where a selector stands: "class gpu: selector 0" or "selector 2".
func (s *Selector) Origin() string {
	if s.Class == "" {
		return fmt.Sprintf("selector %d", s.Position)
	}
	return fmt.Sprintf("class %s: selector %d", s.Class, s.Position)
}

// selectors compiles selectors of a class, or with an empty name, of a request.
func (e *Evaluator) selectors(to []Selector, class string, asked []resourceapi.DeviceSelector) ([]Selector, error) {
	for i := range asked {
		added := Selector{Selector: explain.Selector{Class: class, Position: i}}
		if asked[i].CEL == nil {
			return nil, fmt.Errorf("%s: cel is not set (unsupported kind of selector)", added.Origin())
		}
		added.Expression = asked[i].CEL.Expression
		added.program, added.err = e.programs.Selector(added.Expression)
		to = append(to, added)
	}
	return to, nil
}
