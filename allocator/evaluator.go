package allocator

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// evaluator evaluates CEL expressions on shapes of devices. Results are
// remembered by what an expression reads, for all nodes and problems. It is safe
// for concurrent use.
type evaluator struct {
	programs *cel.Cache
	memo     *cel.Memo
}

func newEvaluator(programs *cel.Cache) *evaluator {
	return &evaluator{programs: programs, memo: cel.NewMemo(defaultMemo)}
}

// matches tells the first selector that rejects the device (its position), or -1 if
// all hold. Selectors after a rejecting one are not evaluated.
func (e *evaluator) matches(ctx context.Context, selectors []selector, device *cel.Device) (int, error) {
	for i := range selectors {
		s := &selectors[i]
		if s.err != nil {
			return i, fmt.Errorf("%s: %w", s.origin(), s.err)
		}
		matched, err := e.memo.Matches(ctx, s.program, device)
		if err != nil {
			return i, fmt.Errorf("%s: %w", s.origin(), err)
		}
		if !matched {
			return i, nil
		}
	}
	return -1, nil
}

// derivedAttribute is an attribute that a request computes by CEL.
type derivedAttribute struct {
	name       resourceapi.FullyQualifiedName
	expression string
	program    *cel.Program
	err        error
}

func (c *compiler) derived(asked []resourceapi.DeviceDerivedAttribute) []derivedAttribute {
	var compiled []derivedAttribute
	for _, d := range asked {
		program, err := c.problem.allocator.selector.programs.Derived(d.Expression)
		compiled = append(compiled, derivedAttribute{name: d.Name, expression: d.Expression, program: program, err: err})
	}
	return compiled
}

// attribute looks an attribute up for a request: derived ones hide those of the device.
func (e *evaluator) attribute(ctx context.Context, alt *alternative, shape *pools.Shape, name resourceapi.FullyQualifiedName) (pools.Attribute, bool, error) {
	// The last one of a name counts, as in a map.
	for i := len(alt.derived) - 1; i >= 0; i-- {
		d := &alt.derived[i]
		if d.name != name {
			continue
		}
		if d.err != nil {
			return pools.Attribute{}, false, fmt.Errorf("derived attribute %s: %w", name, d.err)
		}
		value, err := e.memo.Attribute(ctx, d.program, notesOf(shape).device)
		if err != nil {
			return pools.Attribute{}, false, fmt.Errorf("derived attribute %s: %w", name, err)
		}
		return pools.AttributeOf(value), true, nil
	}
	value, found := shape.Attribute(name)
	return value, found, nil
}
