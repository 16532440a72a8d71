// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/memo"
)

// Features are those of package allocator, which documents them. The two types convert into each other.
type Features struct {
	AdminAccess             bool
	CompatibilityGroups     bool
	ConsumableCapacity      bool
	DerivedAttributes       bool
	DeviceBindingAndStatus  bool
	DeviceTaints            bool
	FractionalCapacityRange bool
	ListTypeAttributes      bool
	OptionalNodeOperations  bool
	PartitionableDevices    bool
	PrioritizedList         bool
}

// Evaluator compiles selectors and evaluates them on shapes of devices. Results are memoised by what an
// expression reads, for all nodes and problems. It is safe for concurrent use.
type Evaluator struct {
	features    Features
	programs    *cel.Cache
	memo        *cel.Memo
	selections  *lru.Cache
	projections *lru.Cache
	memoOff     bool // no memoisation
	// ids is the last ID given to a selection.
	ids atomic.Int64
}

// NewEvaluator returns an Evaluator that compiles with the given cache.
func NewEvaluator(f Features, programs *cel.Cache, b memo.Bounds) *Evaluator {
	if b.Off {
		b.Results = 0
	}
	return &Evaluator{
		features:    f,
		programs:    programs,
		memo:        cel.NewMemo(b.Results),
		selections:  lru.New(b.Selections),
		projections: lru.New(b.Problems),
		memoOff:     b.Off,
	}
}

// Features returns the features of the Evaluator.
func (e *Evaluator) Features() Features { return e.features }

// Evaluations is how many expressions were evaluated.
func (e *Evaluator) Evaluations() int64 { return e.memo.Evaluations() }

// Judgement is the result of a selection for a shape. It is immutable.
type Judgement struct {
	// Offer is the position of the first class that matches the shape, -1 if none does.
	Offer int
	// Use is what an allocation consumes. It is nil if the shape is rejected, and without the feature
	// ConsumableCapacity. It is also nil if the device can only be taken whole and the request asks for no
	// capacity.
	Use *Consumption
}

// noOffer is the judgement of a shape that matches no class.
var noOffer = &Judgement{Offer: -1}

// Rejects reports whether the shape cannot serve the filter. An error in Use does not count.
func (j *Judgement) Rejects() bool {
	return j.Offer < 0 || j.Use != nil && j.Use.Refusal != ""
}

// Judge judges a shape. Errors are those of selectors, and are not memoised: one may be a cancellation.
func (e *Evaluator) Judge(ctx context.Context, f *Filter, of *shape.Shape) (*Judgement, error) {
	number := uint32(0)
	if f.projection != nil {
		number = f.projection.Number(ctx, of)
	}
	if known := f.judgements[number].Load(); known != nil {
		return known, nil
	}
	notes, offer := notesOf(of), -1
	for i, selectors := range f.offers {
		rejectedBy, err := e.matches(ctx, selectors, notes)
		if err != nil {
			return nil, err
		}
		if rejectedBy < 0 {
			offer = i
			break
		}
	}
	j := noOffer
	if offer >= 0 {
		j = &Judgement{Offer: offer}
	}
	if offer >= 0 && (f.capacity != nil || !notes.takenWhole) {
		j.Use = f.consumption(of)
	}
	if number > 0 {
		f.judgements[number].Store(j)
	}
	return j, nil
}

// notCompiledError is the error of an expression that does not compile. It does not depend on the device.
type notCompiledError struct{ error }

// Unwrap returns the error of the expression.
func (e *notCompiledError) Unwrap() error { return e.error }

// NotCompiled reports whether an error is that of an expression that does not compile. Such an error is the
// same for all devices.
func NotCompiled(err error) bool {
	notCompiled := new(notCompiledError)
	return errors.As(err, &notCompiled)
}

// matches returns the position of the first selector that rejects the device, or -1 if all match. Later
// selectors are not evaluated. A selector that reads an attribute of unknown value rejects the device without
// being evaluated.
func (e *Evaluator) matches(ctx context.Context, selectors []Selector, of *notes) (int, error) {
	for i := range selectors {
		s := &selectors[i]
		if s.err != nil {
			return i, &notCompiledError{fmt.Errorf("%s: %w", s.Origin(), s.err)}
		}
		if _, unknown := of.unknown(s.program); unknown {
			return i, nil
		}
		matched, err := e.memo.Matches(ctx, s.program, of.device)
		if err != nil {
			return i, fmt.Errorf("%s: %w", s.Origin(), err)
		}
		if !matched {
			return i, nil
		}
	}
	return -1, nil
}

// Derived is an attribute that a request computes by CEL.
type Derived struct {
	Name       resourceapi.FullyQualifiedName
	Expression string
	program    *cel.Program
	err        error
}

// Derived compiles attributes. Compile errors are returned later, by Attribute.
func (e *Evaluator) Derived(asked []resourceapi.DeviceDerivedAttribute) []Derived {
	var compiled []Derived
	for _, d := range asked {
		program, err := e.programs.Derived(d.Expression)
		compiled = append(compiled, Derived{Name: d.Name, Expression: d.Expression, program: program, err: err})
	}
	return compiled
}

// Attribute looks up an attribute for a request. Derived attributes hide those of the device.
func (e *Evaluator) Attribute(ctx context.Context, derived []Derived, of *shape.Shape, name resourceapi.FullyQualifiedName) (shape.Attribute, bool, error) {
	// The last one of a name wins, as in a map.
	for i := len(derived) - 1; i >= 0; i-- {
		d := &derived[i]
		if d.Name != name {
			continue
		}
		if d.err != nil {
			return shape.Attribute{}, false, &notCompiledError{fmt.Errorf("derived attribute %s: %w", name, d.err)}
		}
		if _, unknown := notesOf(of).unknown(d.program); unknown {
			return shape.Attribute{}, false, nil
		}
		value, err := e.memo.Attribute(ctx, d.program, notesOf(of).device)
		if err != nil {
			return shape.Attribute{}, false, fmt.Errorf("derived attribute %s: %w", name, err)
		}
		return shape.AttributeOf(value), true, nil
	}
	value, found := of.Attribute(name)
	return value, found, nil
}
