// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types/ref"
	resourceapi "k8s.io/api/resource/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	expression string
	id         uint64 // unique in this process
	checked    *cel.Ast
	program    cel.Program
	projector  projector
	// comparison is the whole expression if it consists of nothing else, nil otherwise.
	comparison *comparison
	maxCost    func() uint64
}

var programs atomic.Uint64

// compile checks an expression and prepares it for evaluation.
func compile(expression string, accepts outputCheck) (*Program, error) {
	if len(expression) > resourceapi.CELSelectorExpressionMaxLength {
		return nil, &CompileError{Expression: expression, Message: fmt.Sprintf("is %d bytes long, at most %d are allowed",
			len(expression), resourceapi.CELSelectorExpressionMaxLength)}
	}
	w := theSharedEnv()
	if err := checkExpansion(w, expression); err != nil {
		return nil, err
	}
	checked, issues := w.env.Compile(expression)
	if issues.Err() != nil {
		return nil, firstIssue(expression, issues)
	}
	if complaint := accepts(w, checked.OutputType()); complaint != "" {
		return nil, &CompileError{Expression: expression, Message: complaint}
	}
	program, err := w.env.Program(checked,
		cel.CostLimit(resourceapi.CELSelectorExpressionMaxCost),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return nil, &CompileError{Expression: expression, Message: err.Error(), Err: err}
	}
	return &Program{
		expression: expression,
		id:         programs.Add(1),
		checked:    checked,
		program:    program,
		projector:  newProjector(analyse(checked.NativeRep().Expr())),
		comparison: comparisonIn(checked.NativeRep().Expr()),
		maxCost:    sync.OnceValue(func() uint64 { return maxCost(w, checked) }),
	}, nil
}

func firstIssue(expression string, issues *cel.Issues) *CompileError {
	e := &CompileError{Expression: expression, Message: issues.Err().Error(), Err: issues.Err()}
	if all := issues.Errors(); len(all) > 0 {
		e.Message = withSyntaxHint(all[0].Message)
		e.Line, e.Column = position(all[0].Location)
	}
	return e
}

// position counts from 1. Zero means unknown.
func position(at common.Location) (line, column int) {
	if at == nil || at.Line() < 1 {
		return 0, 0
	}
	return at.Line(), at.Column() + 1
}

// Expression returns the source text.
func (p *Program) Expression() string { return p.expression }

// Reads returns what the result depends on. The slices must not be modified.
func (p *Program) Reads() Reads { return p.projector.reads }

// MaxCost estimates the cost of an evaluation in the worst case, in the units of
// [resourceapi.CELSelectorExpressionMaxCost]. It is math.MaxUint64 if there is no bound. The first call
// computes it.
func (p *Program) MaxCost() uint64 { return p.maxCost() }

var boolType = reflect.TypeFor[bool]()

// Matches evaluates a selector. The error is an *[EvalError].
func (p *Program) Matches(ctx context.Context, d *Device) (bool, error) {
	if match, decided := p.comparison.decide(d); decided {
		return match, nil
	}
	result, err := p.evaluate(ctx, d)
	if err != nil {
		return false, err
	}
	native, err := result.ConvertToNative(boolType)
	match, isBool := native.(bool)
	if err != nil || !isBool {
		return false, &EvalError{Expression: p.expression, Hint: p.typesHint(d),
			Err: fmt.Errorf("must yield true or false, not a value of type %s", result.Type().TypeName())}
	}
	return match, nil
}

// Attribute evaluates a derived attribute. The error is an *[EvalError].
func (p *Program) Attribute(ctx context.Context, d *Device) (*resourceapi.DeviceAttribute, error) {
	result, err := p.evaluate(ctx, d)
	if err != nil {
		return nil, err
	}
	attribute, err := toAttribute(result)
	if err != nil {
		return nil, &EvalError{Expression: p.expression, Err: err}
	}
	return attribute, nil
}

func (p *Program) evaluate(ctx context.Context, d *Device) (ref.Val, error) {
	if d.err != nil {
		return nil, &EvalError{Expression: p.expression, Err: d.err}
	}
	result, _, err := p.program.ContextEval(ctx, d.variables(&p.projector.reads))
	if err != nil {
		return nil, p.evalError(ctx, d, err)
	}
	return result, nil
}
