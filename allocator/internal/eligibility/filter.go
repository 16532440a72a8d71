package eligibility

import (
	"fmt"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/cel"
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

// AppendKey appends all that terms say about devices.
func (t *Terms) AppendKey(k *memo.Key) {
	k.Number(len(t.Offers))
	for _, offer := range t.Offers {
		k.Text(offer.Class.Name)
		appendSelectors(k, offer.Class.Spec.Selectors)
		appendSelectors(k, offer.Selectors)
	}
	if k.Flags(t.All, t.Admin, t.Capacity != nil); t.Capacity != nil {
		k.Number(len(t.Capacity.Requests))
		for name, value := range sorted(t.Capacity.Requests) {
			k.Text(string(name))
			appendQuantity(k, &value)
		}
	}
	k.Number(len(t.Tolerations))
	for i := range t.Tolerations {
		k.Text(t.Tolerations[i].Key)
		k.Text(string(t.Tolerations[i].Operator))
		k.Text(t.Tolerations[i].Value)
		k.Text(string(t.Tolerations[i].Effect))
	}
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

// Filter decides about single devices, whatever else is chosen. Equal terms have the same one for all problems
// of an Evaluator, so that shapes are judged once. It is immutable but for what it remembers.
type Filter struct {
	// ID is unique within the Evaluator.
	ID       int64
	features Features
	terms    Terms // without Offers
	offers   [][]Selector
	// reads is what the selectors read, projection the devices as the filter sees them. Both are nil if
	// that is not known.
	reads      Reads
	projection *Projection
	// judgements are by number in the projection.
	judgements [maxNumbers + 1]atomic.Pointer[Judgement]
}

// Filter returns the filter for terms, given their key. The error says that there is a selector of an
// unsupported kind.
func (e *Evaluator) Filter(t *Terms, key string) (*Filter, error) {
	if known, ok := e.filters.Get(key); ok {
		return known.(*Filter), nil
	}
	// The filter outlives the claim, so it has copies of its own.
	f := &Filter{ID: e.ids.Add(1), features: e.features, terms: Terms{
		Capacity: t.Capacity.DeepCopy(), All: t.All, Admin: t.Admin, Tolerations: slices.Clone(t.Tolerations),
	}}
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
		f.offers = append(f.offers, selectors)
	}
	if f.reads = readsOf(f.offers); f.reads != nil {
		f.projection = e.projection(f.reads, nil, t.Capacity != nil, "")
	}
	e.filters.Add(key, f)
	return f, nil
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
