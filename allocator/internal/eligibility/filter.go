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
	// Offers are the classes that may serve it, by preference. A device serves by the first class that it
	// matches. There is at least one.
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

// ofRequests returns the rows of a field that requests and subrequests have in common.
func ofRequests(paths ...string) (rows []keys.Row) {
	for _, path := range paths {
		rows = append(rows, keys.Rows(reads.Claim, "Spec.Devices.Requests[].Exactly."+path, "Spec.Devices.Requests[].FirstAvailable[]."+path)...)
	}
	return rows
}

// Selected writes what a Selection depends on.
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

// Filtered writes what a Filter depends on besides its selection.
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

// Tolerated writes the fields of a toleration that are read.
var Tolerated = keys.Writer[*resourceapi.DeviceToleration]{
	{Covers: keys.Rows(reads.Toleration, "Key"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(t.Key) }},
	{Covers: keys.Rows(reads.Toleration, "Operator"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(string(t.Operator)) }},
	{Covers: keys.Rows(reads.Toleration, "Value"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(t.Value) }},
	{Covers: keys.Rows(reads.Toleration, "Effect"), Write: func(k *memo.Key, t *resourceapi.DeviceToleration) { k.Text(string(t.Effect)) }},
}

// AppendKey appends all that terms say about devices. The key up to the returned length identifies the
// Selection.
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

// Filter decides whether a device may serve a request, whatever else is chosen.
type Filter struct {
	*Selection
	*Terms
}

// AppendKey appends what the filter depends on. Keys are only comparable within one Evaluator.
func (f *Filter) AppendKey(k *memo.Key) {
	k.Number(int(f.id))
	Filtered.Append(k, f.Terms)
}

// Selection is the part of a filter that depends on the shape of a device only: the selectors of each class,
// and the requested capacity. All problems of an Evaluator share equal selections, so that each shape is judged
// once. It is immutable except for its caches.
type Selection struct {
	id       int64 // unique within the Evaluator
	features Features
	offers   [][]Selector
	capacity *resourceapi.CapacityRequirements
	// reads is what the selectors read, projection numbers the shapes by it. Both are nil if a selector may
	// read anything.
	reads      Reads
	projection *Projection
	// judgements are by the number in the projection. Index 0 is for shapes without a number, and stays empty.
	judgements [maxNumbers + 1]atomic.Pointer[Judgement]
}

// Filter makes a filter from terms and the key of their selection. The error says that there is a selector of
// an unsupported kind.
func (e *Evaluator) Filter(t *Terms, selection []byte) (*Filter, error) {
	key := string(selection)
	if known, ok := e.selections.Get(key); ok {
		return &Filter{known.(*Selection), t}, nil
	}
	// The selection outlives the claim, so it keeps a copy.
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
	if s.reads = readsOf(s.offers); s.reads != nil && !e.memoOff {
		s.projection = e.projection(s.reads, nil, t.Capacity != nil, "")
	}
	e.selections.Add(key, s)
	return &Filter{s, t}, nil
}

// Selector is one CEL selector of a class or a request.
type Selector struct {
	explain.Selector
	program *cel.Program
	// err is set if the expression does not compile. As in kube-scheduler, it only counts once a device is
	// looked at.
	err error
}

// Origin says where a selector stands: "class gpu: selector 0" or "selector 2".
func (s *Selector) Origin() string {
	if s.Class == "" {
		return fmt.Sprintf("selector %d", s.Position)
	}
	return fmt.Sprintf("class %s: selector %d", s.Class, s.Position)
}

// selectors compiles selectors of a class, or of a request if the name is empty.
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
