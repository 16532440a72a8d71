package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
)

// selection is the selectors of a class and of a request. Equal ones are the same for all
// filters of an Allocator, which may differ in what they tolerate and want beside.
type selection struct {
	// id is unique within the Allocator.
	id        int64
	selectors []selector
	// reads is what the selectors read, sight what they can tell about devices. Both are
	// nil if that is not known.
	reads reads
	sight *sight
	// rejections have, by number of the sight, which selector rejects a shape, counted from
	// 1. It is 0 if none does.
	rejections numberTable
}

// selector is one CEL selector of a class or a request.
type selector struct {
	// class is the name of the class that it is of, empty if it is of the request.
	class      string
	position   int
	expression string
	program    *cel.Program
	// err is set if the expression does not compile. It only counts once a
	// device is looked at, as in kube-scheduler.
	err error
}

// origin says where a selector stands: "class gpu: selector 0" or "selector 2".
func (s *selector) origin() string {
	if s.class == "" {
		return fmt.Sprintf("selector %d", s.position)
	}
	return fmt.Sprintf("class %s: selector %d", s.class, s.position)
}

// selection makes a selection, or returns the one made for the same content.
func (a *Allocator) selection(class *resourceapi.DeviceClass, asked []resourceapi.DeviceSelector) (*selection, error) {
	var buffer [signatureSize]byte
	key := spelling{text: buffer[:0]}
	key.selection(class, asked)
	if known, ok := a.selections.Get(string(key.text)); ok && !known.(*selection).worn() {
		return known.(*selection), nil
	}
	s := &selection{id: a.filterIDs.Add(1)}
	if err := s.add(a.selector.programs, class.Name, class.Spec.Selectors); err != nil {
		return nil, err
	}
	if err := s.add(a.selector.programs, "", asked); err != nil {
		return nil, err
	}
	read := make(reads)
	ok, err := read.add(s.selectors)
	if err != nil {
		return nil, err
	}
	if ok {
		s.reads = read
		if s.sight, err = a.sight(read); err != nil {
			return nil, err
		}
	}
	a.selections.Add(string(key.text), s)
	return s, nil
}

// worn reports whether shapes that come now would not be told apart.
func (s *selection) worn() bool { return s.sight != nil && s.sight.numbers.full(maxNumbers) }

func (s *selection) add(programs *cel.Cache, class string, selectors []resourceapi.DeviceSelector) error {
	for i, asked := range selectors {
		added := selector{class: class, position: i}
		if asked.CEL == nil {
			return fmt.Errorf("%s: cel is not set (unsupported kind of selector)", added.origin())
		}
		added.expression = asked.CEL.Expression
		added.program, added.err = programs.Selector(added.expression)
		s.selectors = append(s.selectors, added)
	}
	return nil
}

// selection spells what a selection is made of.
func (s *spelling) selection(class *resourceapi.DeviceClass, asked []resourceapi.DeviceSelector) {
	s.string(class.Name)
	s.selectors(class.Spec.Selectors)
	s.selectors(asked)
}

func (s *spelling) selectors(all []resourceapi.DeviceSelector) {
	s.number(uint32(len(all)))
	for i := range all {
		s.flags(all[i].CEL != nil)
		if all[i].CEL != nil {
			s.string(all[i].CEL.Expression)
		}
	}
}
