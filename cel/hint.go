// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	resourceapi "k8s.io/api/resource/v1"
)

// sharedErrorNode is the node ID of errors that belong to no expression.
const sharedErrorNode = -1

const noSuchKey = "no such key: "

// evalError adds position and hint to an error of the interpreter.
func (p *Program) evalError(ctx context.Context, d *Device, err error) error {
	e := &EvalError{Expression: p.expression, Err: err}
	if errors.Is(err, interpreter.InterruptError{}) {
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			e.Err = fmt.Errorf("%w: %w", err, cause)
		}
		return e
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		e.Hint = fmt.Sprintf("an evaluation may cost at most %d", resourceapi.CELSelectorExpressionMaxCost)
		return e
	}
	var located *types.Err
	if errors.As(err, &located) && located.NodeID() > 0 {
		at := p.checked.NativeRep().SourceInfo().GetStartLocation(located.NodeID())
		e.Line, e.Column = position(at)
	}
	e.Hint = p.hint(d, err.Error())
	return e
}

// hint says how to fix an error, given the message of the interpreter.
func (p *Program) hint(d *Device, message string) string {
	if key, ok := strings.CutPrefix(message, noSuchKey); ok {
		return p.missingHint(d, key)
	}
	if strings.Contains(message, "no such overload") || strings.Contains(message, "expected iterable type") {
		return p.typesHint(d)
	}
	return ""
}

// missingHint says which attribute or capacity the device lacks, and how an expression can handle that.
func (p *Program) missingHint(d *Device, id string) string {
	for i := range p.projector.attributes {
		l := &p.projector.attributes[i]
		if _, found := find(l, d.driver, d.object.Attributes); !found && l.ID == id {
			return missing("attribute", fmt.Sprintf("device.attributes[%q]", l.Domain), l.Name)
		}
	}
	for i := range p.projector.capacities {
		l := &p.projector.capacities[i]
		if _, found := find(l, d.driver, d.object.Capacity); !found && l.ID == id {
			return missing("capacity", fmt.Sprintf("device.capacity[%q]", l.Domain), l.Name)
		}
	}
	return "read what may be missing with optional access, .?name or [?name], followed by orValue(...)"
}

func missing(kind, domain string, name Name) string {
	return fmt.Sprintf("%s %s is missing: test it with has(%s.%s) or read it as %[3]s.?%[4]s.orValue(...)",
		kind, name, domain, name.ID)
}

// typesHint names the types of the attributes that the expression reads.
func (p *Program) typesHint(d *Device) string {
	var known []string
	for i := range p.projector.attributes {
		l := &p.projector.attributes[i]
		if attribute, found := find(l, d.driver, d.object.Attributes); found {
			known = append(known, fmt.Sprintf("%s is of type %s", l.Name, kindOf(&attribute)))
		}
	}
	return strings.Join(known, ", ")
}

// syntaxHints are corrections for syntax of other languages.
var syntaxHints = []struct{ complaint, hint string }{
	{"token recognition error at: '=", "compare with =="},
	{"input 'and'", "write &&"},
	{"input 'AND'", "write &&"},
	{"input 'or'", "write ||"},
	{"input 'OR'", "write ||"},
}

// withSyntaxHint adds a correction to an error of the parser.
func withSyntaxHint(complaint string) string {
	for _, known := range syntaxHints {
		if strings.Contains(complaint, known.complaint) {
			return complaint + " (" + known.hint + ")"
		}
	}
	return complaint
}
