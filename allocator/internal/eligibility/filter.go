package eligibility

import (
	"fmt"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/cel"
)

// Terms are what a request says about single devices.
type Terms struct {
	Class       *resourceapi.DeviceClass
	Selectors   []resourceapi.DeviceSelector
	Capacity    *resourceapi.CapacityRequirements
	Admin       bool
	Tolerations []resourceapi.DeviceToleration
}

// AppendKey appends all that terms say about devices. What is there up to the length that it returns makes
// a selection.
func (t *Terms) AppendKey(k *memo.Key) (selection int) {
	k.Text(t.Class.Name)
	appendSelectors(k, t.Class.Spec.Selectors)
	appendSelectors(k, t.Selectors)
	if k.Flags(t.Capacity != nil); t.Capacity != nil {
		k.Number(len(t.Capacity.Requests))
		for name, value := range sorted(t.Capacity.Requests) {
			k.Text(string(name))
			appendQuantity(k, &value)
		}
	}
	selection = len(k.Bytes)
	t.appendRest(k)
	return selection
}

// appendRest appends what a filter is beside a selection.
func (t *Terms) appendRest(k *memo.Key) {
	k.Flags(t.Admin)
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

// Filter decides about single devices of a problem, whatever else is chosen.
type Filter struct {
	*Selection
	terms Terms
	// Mandatory is set if a request wants all devices that match.
	Mandatory bool
}

// Filter makes a filter, given the key of its selection. The error says that there is a selector of an
// unsupported kind.
func (e *Evaluator) Filter(t Terms, selection []byte) (*Filter, error) {
	key := string(selection)
	if known, ok := e.selections.Get(key); ok {
		return &Filter{Selection: known.(*Selection), terms: t}, nil
	}
	// The selection outlives the claim, so it has a copy of its own.
	s := &Selection{id: e.ids.Add(1), features: e.features, Capacity: t.Capacity.DeepCopy()}
	if err := s.add(e.programs, t.Class.Name, t.Class.Spec.Selectors); err != nil {
		return nil, err
	}
	if err := s.add(e.programs, "", t.Selectors); err != nil {
		return nil, err
	}
	if s.Reads = readsOf(s.Selectors); s.Reads != nil {
		s.projection = e.projection(s.Reads, nil, t.Capacity != nil, "")
	}
	e.selections.Add(key, s)
	return &Filter{Selection: s, terms: t}, nil
}

// AppendKey appends what the filter says of devices. Equal keys are of the same Evaluator.
func (f *Filter) AppendKey(k *memo.Key) {
	k.Number(int(f.id))
	f.terms.appendRest(k)
}

// Selection is what filters say of shapes, and so of all devices of a shape: the selectors of a class
// and of a request, and the capacity that it asks for. Equal ones are the same for all problems of an
// Evaluator, so that shapes are judged once. It is immutable but for what it remembers.
type Selection struct {
	id        int64 // unique within the Evaluator
	features  Features
	Selectors []Selector
	Capacity  *resourceapi.CapacityRequirements
	// Reads is what the selectors read, projection the devices as the selection sees them. Both
	// are nil if that is not known.
	Reads      Reads
	projection *Projection
	// judgements are by number in the projection.
	judgements [maxNumbers + 1]atomic.Pointer[Judgement]
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

func (s *Selection) add(programs *cel.Cache, class string, selectors []resourceapi.DeviceSelector) error {
	for i, asked := range selectors {
		added := Selector{Selector: explain.Selector{Class: class, Position: i}}
		if asked.CEL == nil {
			return fmt.Errorf("%s: cel is not set (unsupported kind of selector)", added.Origin())
		}
		added.Expression = asked.CEL.Expression
		added.program, added.err = programs.Selector(added.Expression)
		s.Selectors = append(s.Selectors, added)
	}
	return nil
}
