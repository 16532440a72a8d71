// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// comparisons is an expression that only compares the driver and attributes with literals: a == x && b == y. It
// is evaluated without CEL and without the Memo. Where each device has its own value, such as a serial number,
// looking up a result takes longer than comparing.
//
// The cost in CEL's units is less than the length of the expression, so the cost limit is never reached.
type comparisons []comparison

// comparison is one comparison with a literal.
type comparison struct {
	of   lookup // the attribute, unless driver is set
	kind valueKind
	// driver is set if the driver is compared.
	driver bool
	text   string
	number int64
	truth  bool
}

// comparisonsIn returns the comparisons of an expression, nil if it contains anything else.
func comparisonsIn(e ast.Expr) comparisons {
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		var all comparisons
		for _, operand := range call.Args() {
			some := comparisonsIn(operand)
			if some == nil {
				return nil
			}
			all = append(all, some...)
		}
		return all
	case operators.Equals:
		for i, literal := range call.Args() {
			if c, ok := comparisonOf(call.Args()[1-i], literal); ok {
				return comparisons{c}
			}
		}
	}
	return nil
}

func comparisonOf(operand, literal ast.Expr) (c comparison, ok bool) {
	if literal.Kind() != ast.LiteralKind {
		return c, false
	}
	switch value := literal.AsLiteral().(type) {
	case types.String:
		c.kind, c.text = stringKind, string(value)
	case types.Int:
		c.kind, c.number = intKind, int64(value)
	case types.Bool:
		c.kind, c.truth = boolKind, bool(value)
	default:
		return c, false
	}
	fields, ok := fieldsOf(operand)
	switch {
	case !ok:
		return c, false
	case len(fields) == 1 && fields[0] == driverName && c.kind == stringKind:
		c.driver = true
		return c, true
	case len(fields) == 3 && fields[0] == attributesName:
		c.of = lookups([]Name{{fields[1], fields[2]}})[0]
		return c, true
	}
	return c, false
}

// fieldsOf returns the names by which an expression selects a part of the device, from the outside in.
func fieldsOf(e ast.Expr) (names []string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, e.AsIdent() == deviceName
	case ast.SelectKind:
		s := e.AsSelect()
		names, ok = fieldsOf(s.Operand())
		return append(names, s.FieldName()), ok && !s.IsTestOnly()
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index {
			key, literal := literalString(call.Args()[1])
			names, ok = fieldsOf(call.Args()[0])
			return append(names, key), ok && literal
		}
	}
	return nil, false
}

// decide evaluates the comparisons for a device. decided is false if only CEL can tell: a value is missing, or
// has another type. As in CEL, one false comparison decides, whatever the others are.
func (all comparisons) decide(d *Device) (match, decided bool) {
	if len(all) == 0 || d.err != nil {
		return false, false
	}
	decided = true
	for i := range all {
		equal, known := all[i].decide(d)
		if known && !equal {
			return false, true
		}
		decided = decided && known
	}
	return decided, decided
}

func (c *comparison) decide(d *Device) (equal, known bool) {
	if c.driver {
		return d.driver == c.text, true
	}
	attribute, found := find(&c.of, d.driver, d.object.Attributes)
	if !found || kindOf(&attribute) != c.kind {
		return false, false
	}
	switch c.kind {
	case stringKind:
		return *attribute.StringValue == c.text, true
	case intKind:
		return *attribute.IntValue == c.number, true
	default:
		return *attribute.BoolValue == c.truth, true
	}
}
