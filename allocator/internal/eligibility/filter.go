package eligibility

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/cel"
)

// Terms are what a request says about single devices.
type Terms struct {
	Class       *resourceapi.DeviceClass
	Selectors   []resourceapi.DeviceSelector
	Admin       bool
	Tolerations []resourceapi.DeviceToleration
	Capacity    *resourceapi.CapacityRequirements
}

// Filter decides about single devices, whatever else is chosen: selectors, tolerations, capacity,
// admin access. It is immutable but for what it remembers, and equal ones are the same for all
// problems of an Evaluator, so that shapes are judged once.
type Filter struct {
	*Selection
	// ID is unique within the Evaluator.
	ID          int64
	Admin       bool
	Capacity    *resourceapi.CapacityRequirements
	tolerations []resourceapi.DeviceToleration
	features    Features
	judgements  judgements
}

// Use is a Filter in a problem.
type Use struct {
	*Filter
	// Mandatory is set if a request wants all devices that match.
	Mandatory bool
}

// Selection is the selectors of a class and of a request. Equal ones are the same for all filters
// of an Evaluator, which may differ in what they tolerate and want beside.
type Selection struct {
	id        int64
	Selectors []Selector
	// Reads is what the selectors read, projection the devices as they see them. Both are nil
	// if that is not known.
	Reads      Reads
	projection *Projection
	// rejections have, by number in the projection, which selector rejects a device, counted
	// from 1. It is 0 if none does.
	rejections memo.Table
}

// Selector is one CEL selector of a class or a request.
type Selector struct {
	// Class is the name of the class that it is of, empty if it is of the request.
	Class string
	// Position is where it stands among the selectors of the class or request.
	Position   int
	Expression string
	program    *cel.Program
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

// keySize is room for most keys.
const keySize = 256

// Filter makes a filter, or returns the one that was made for the same content.
func (e *Evaluator) Filter(t Terms) (*Filter, error) {
	selected, err := e.selection(t.Class, t.Selectors)
	if err != nil {
		return nil, err
	}
	key := memo.Key{Bytes: make([]byte, 0, keySize)}
	key.Number(int(selected.id))
	appendTerms(&key, &t)
	if known, ok := e.filters.Get(string(key.Bytes)); ok && known.(*Filter).Selection == selected {
		return known.(*Filter), nil
	}
	// The filter outlives the claim, so it has copies of its own.
	f := &Filter{
		Selection: selected, ID: e.ids.Add(1), Admin: t.Admin,
		Capacity: t.Capacity.DeepCopy(), tolerations: slices.Clone(t.Tolerations), features: e.features,
	}
	for i := range f.tolerations {
		f.tolerations[i].TolerationSeconds = nil // says nothing about devices
	}
	e.filters.Add(string(key.Bytes), f)
	return f, nil
}

// AppendKey appends all that terms say about devices.
func (t *Terms) AppendKey(k *memo.Key) {
	k.Text(t.Class.Name)
	appendSelectors(k, t.Class.Spec.Selectors)
	appendSelectors(k, t.Selectors)
	appendTerms(k, t)
}

// appendTerms appends what a filter is beside a selection.
func appendTerms(k *memo.Key, t *Terms) {
	k.Flags(t.Admin, t.Capacity != nil)
	k.Number(len(t.Tolerations))
	for i := range t.Tolerations {
		k.Text(t.Tolerations[i].Key)
		k.Text(string(t.Tolerations[i].Operator))
		k.Text(t.Tolerations[i].Value)
		k.Text(string(t.Tolerations[i].Effect))
	}
	if t.Capacity != nil {
		appendQuantities(k, t.Capacity.Requests)
	}
}

// appendQuantities appends what is requested, as numbers: the spelling makes no difference here.
func appendQuantities(k *memo.Key, asked map[resourceapi.QualifiedName]resource.Quantity) {
	k.Number(len(asked))
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		quantity := asked[name]
		k.Text(string(name))
		appendQuantity(k, &quantity)
	}
}

// appendQuantity appends a quantity as a number, nil as none.
func appendQuantity(k *memo.Key, of *resource.Quantity) {
	if k.Flags(of != nil); of == nil {
		return
	}
	number := ptr.To(*of).AsDec() // of a copy: it changes what it is called on
	k.Flags(number.UnscaledBig().Sign() < 0)
	k.Text(string(number.UnscaledBig().Bytes()))
	k.Number(int(uint32(number.Scale())))
	k.Text(string(of.Format))
}

// selection makes a selection, or returns the one that was made for the same content.
func (e *Evaluator) selection(class *resourceapi.DeviceClass, asked []resourceapi.DeviceSelector) (*Selection, error) {
	key := memo.Key{Bytes: make([]byte, 0, keySize)}
	key.Text(class.Name)
	appendSelectors(&key, class.Spec.Selectors)
	appendSelectors(&key, asked)
	if known, ok := e.selections.Get(string(key.Bytes)); ok && !known.(*Selection).worn() {
		return known.(*Selection), nil
	}
	s := &Selection{id: e.ids.Add(1)}
	if err := s.add(e.programs, class.Name, class.Spec.Selectors); err != nil {
		return nil, err
	}
	if err := s.add(e.programs, "", asked); err != nil {
		return nil, err
	}
	read := make(Reads)
	ok, err := read.add(s.Selectors)
	if err != nil {
		return nil, err
	}
	if ok {
		s.Reads = read
		if s.projection, err = e.Projection(read, false); err != nil {
			return nil, err
		}
	}
	e.selections.Add(string(key.Bytes), s)
	return s, nil
}

// worn reports whether shapes that come now would not be told apart.
func (s *Selection) worn() bool { return s.projection != nil && s.projection.worn() }

func (s *Selection) add(programs *cel.Cache, class string, selectors []resourceapi.DeviceSelector) error {
	for i, asked := range selectors {
		added := Selector{Class: class, Position: i}
		if asked.CEL == nil {
			return fmt.Errorf("%s: cel is not set (unsupported kind of selector)", added.Origin())
		}
		added.Expression = asked.CEL.Expression
		added.program, added.err = programs.Selector(added.Expression)
		s.Selectors = append(s.Selectors, added)
	}
	return nil
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
