// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// comparison is an expression that only compares the driver and attributes with literals, joined by &&, || and !.
// It is evaluated without CEL and without the Memo. Where each device has its own value, such as a serial number,
// looking up a result takes longer than comparing.
//
// The cost in CEL's units stays below the cost limit: a literal is part of the expression, whose length is limited,
// and a text beyond maxCompared is left to CEL.
type comparison struct {
	test testKind
	// of are the parts of allOf, anyOf and noneOf.
	of []comparison
	// operand is compared with literals, of which all but isOneOf have one. Tests of presence and truth have none.
	operand  operand
	literals []literal
	pattern  *regexp.Regexp
}

// maxCompared is the length of the longest attribute that is compared without CEL. The API admits 64 bytes.
const maxCompared = 128

type testKind uint8

const (
	allOf testKind = iota
	anyOf
	noneOf // of one part: it is false
	isPresent
	isTrue
	isOneOf
	isNoneOf
	isLess
	isAtMost
	isGreater
	isAtLeast
	startsWith
	endsWith
	contains
	matches
)

// operand is the driver or an attribute.
type operand struct {
	of     lookup // the attribute, unless driver is set
	driver bool
	// without is the value of an attribute that is missing. Its kind is noKind if that is an error.
	without literal
}

// literal is a value of an expression or of a device.
type literal struct {
	kind   valueKind // stringKind, intKind or boolKind
	text   string
	number int64
	truth  bool
}

// verdict is what a comparison says of a device.
type verdict uint8

// Only CEL can tell what is open: a value is missing, or has another type.
const (
	open verdict = iota
	no
	yes
)

func verdictOf(truth bool) verdict {
	if truth {
		return yes
	}
	return no
}

// comparisonIn returns the comparison that an expression is, nil if it contains anything else.
func comparisonIn(e ast.Expr) *comparison {
	switch e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		if !s.IsTestOnly() {
			break
		}
		fields, ok := fieldsOf(s.Operand())
		if o, known := operandAt(append(fields, s.FieldName())); ok && known && !o.driver {
			return &comparison{test: isPresent, operand: o}
		}
		return nil
	case ast.CallKind:
		if c, joined := joinedIn(e.AsCall()); joined {
			return c
		}
		if c := testIn(e.AsCall()); c != nil {
			return c
		}
	}
	if o, ok := operandOf(e); ok && !o.driver {
		return &comparison{test: isTrue, operand: o}
	}
	return nil
}

// joinedIn returns the comparison of a logical operator, nil if an operand contains anything else. Joined is false
// for other calls.
func joinedIn(call ast.CallExpr) (c *comparison, joined bool) {
	test, joined := map[string]testKind{
		operators.LogicalAnd: allOf, operators.LogicalOr: anyOf, operators.LogicalNot: noneOf,
	}[call.FunctionName()]
	if !joined {
		return nil, false
	}
	c = &comparison{test: test}
	for _, part := range call.Args() {
		known := comparisonIn(part)
		if known == nil {
			return nil, true
		}
		c.of = append(c.of, *known)
	}
	return c, true
}

// ordered are the operators that compare by size, mirrored those with the operands the other way round.
var (
	ordered = map[string]testKind{
		operators.Equals: isOneOf, operators.NotEquals: isNoneOf,
		operators.Less: isLess, operators.LessEquals: isAtMost, operators.Greater: isGreater, operators.GreaterEquals: isAtLeast,
	}
	mirrored = map[testKind]testKind{
		isOneOf: isOneOf, isNoneOf: isNoneOf, isLess: isGreater, isAtMost: isAtLeast, isGreater: isLess, isAtLeast: isAtMost,
	}
	ofTexts = map[string]testKind{
		overloads.StartsWith: startsWith, overloads.EndsWith: endsWith, overloads.Contains: contains, overloads.Matches: matches,
	}
)

// testIn returns the comparison of an operand with literals, nil if the call is something else.
func testIn(call ast.CallExpr) *comparison {
	args := call.Args()
	if call.IsMemberFunction() {
		args = slices.Insert(slices.Clone(args), 0, call.Target())
	}
	if len(args) != 2 {
		return nil
	}
	if test, ok := ordered[call.FunctionName()]; ok {
		if c := compared(test, args[0], args[1]); c != nil {
			return c
		}
		return compared(mirrored[test], args[1], args[0])
	}
	if call.FunctionName() == operators.In && args[1].Kind() == ast.ListKind {
		return compared(isOneOf, args[0], args[1].AsList().Elements()...)
	}
	test, ok := ofTexts[call.FunctionName()]
	c := compared(test, args[0], args[1])
	if !ok || c == nil || c.literals[0].kind != stringKind {
		return nil
	}
	if test == matches {
		pattern, err := regexp.Compile(c.literals[0].text)
		if err != nil {
			return nil // the checker does not admit it
		}
		c.pattern = pattern
	}
	return c
}

// compared returns a test of an operand by literals of one kind.
func compared(test testKind, of ast.Expr, with ...ast.Expr) *comparison {
	o, ok := operandOf(of)
	if !ok || len(with) == 0 {
		return nil
	}
	c := &comparison{test: test, operand: o}
	for _, e := range with {
		l, known := literalOf(e)
		if !known || len(c.literals) > 0 && l.kind != c.literals[0].kind {
			return nil
		}
		c.literals = append(c.literals, l)
	}
	if c.literals[0].kind == boolKind && test != isOneOf && test != isNoneOf {
		return nil
	}
	return c
}

func literalOf(e ast.Expr) (l literal, ok bool) {
	if e.Kind() != ast.LiteralKind {
		return l, false
	}
	switch value := e.AsLiteral().(type) {
	case types.String:
		return literal{kind: stringKind, text: string(value)}, true
	case types.Int:
		return literal{kind: intKind, number: int64(value)}, true
	case types.Bool:
		return literal{kind: boolKind, truth: bool(value)}, true
	}
	return l, false
}

// operandOf returns the driver, an attribute, or an optional attribute with a value for those that are missing.
func operandOf(e ast.Expr) (o operand, ok bool) {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "orValue" && len(e.AsCall().Args()) == 1 {
		without, known := literalOf(e.AsCall().Args()[0])
		target := e.AsCall().Target()
		if !known || target.Kind() != ast.CallKind {
			return o, false
		}
		call := target.AsCall()
		if name := call.FunctionName(); name != operators.OptSelect && name != operators.OptIndex {
			return o, false
		}
		key, known := literalString(call.Args()[1])
		fields, selects := fieldsOf(call.Args()[0])
		if o, ok = operandAt(append(fields, key)); !ok || !known || !selects || o.driver {
			return o, false
		}
		o.without = without
		return o, true
	}
	fields, ok := fieldsOf(e)
	if !ok {
		return o, false
	}
	return operandAt(fields)
}

// operandAt returns what the names of fieldsOf select.
func operandAt(fields []string) (o operand, ok bool) {
	switch {
	case len(fields) == 1 && fields[0] == driverName:
		return operand{driver: true}, true
	case len(fields) == 3 && fields[0] == attributesName:
		return operand{of: lookups([]Name{{fields[1], fields[2]}})[0]}, true
	}
	return o, false
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

// decide evaluates the comparison for a device. decided is false if only CEL can tell.
func (c *comparison) decide(d *Device) (match, decided bool) {
	if c == nil || d.err != nil {
		return false, false
	}
	said := c.verdict(d)
	return said == yes, said != open
}

func (c *comparison) verdict(d *Device) verdict {
	switch c.test {
	case allOf:
		return c.joined(d, no, yes)
	case anyOf:
		return c.joined(d, yes, no)
	case noneOf:
		switch c.of[0].verdict(d) {
		case yes:
			return no
		case no:
			return yes
		}
		return open
	case isPresent:
		_, found := find(&c.operand.of, d.driver, d.object.Attributes)
		return verdictOf(found)
	}
	value, known := c.operand.value(d)
	switch {
	case !known:
		return open
	case c.test == isTrue && value.kind != boolKind:
		return open
	case c.test == isTrue:
		return verdictOf(value.truth)
	case value.kind != c.literals[0].kind || len(value.text) > maxCompared:
		return open
	}
	return verdictOf(c.holds(&value))
}

// joined evaluates the parts. As in CEL, one part that decides does so whatever the others are.
func (c *comparison) joined(d *Device, decides, otherwise verdict) verdict {
	said := otherwise
	for i := range c.of {
		switch c.of[i].verdict(d) {
		case decides:
			return decides
		case open:
			said = open
		}
	}
	return said
}

// value is what a device has. It is not known if it is missing, or of a type that is not compared.
func (o *operand) value(d *Device) (l literal, known bool) {
	if o.driver {
		return literal{kind: stringKind, text: d.driver}, true
	}
	attribute, found := find(&o.of, d.driver, d.object.Attributes)
	if !found {
		return o.without, o.without.kind != noKind
	}
	switch l.kind = kindOf(&attribute); l.kind {
	case stringKind:
		l.text = *attribute.StringValue
	case intKind:
		l.number = *attribute.IntValue
	case boolKind:
		l.truth = *attribute.BoolValue
	default:
		return l, false
	}
	return l, true
}

// holds compares a value with literals of its kind.
func (c *comparison) holds(value *literal) bool {
	first := &c.literals[0]
	switch c.test {
	case isOneOf:
		return slices.Contains(c.literals, *value)
	case isNoneOf:
		return !slices.Contains(c.literals, *value)
	case startsWith:
		return strings.HasPrefix(value.text, first.text)
	case endsWith:
		return strings.HasSuffix(value.text, first.text)
	case contains:
		return strings.Contains(value.text, first.text)
	case matches:
		return c.pattern.MatchString(value.text)
	}
	order := cmp.Compare(value.number, first.number)
	if value.kind == stringKind {
		order = strings.Compare(value.text, first.text)
	}
	switch c.test {
	case isLess:
		return order < 0
	case isAtMost:
		return order <= 0
	case isGreater:
		return order > 0
	default:
		return order >= 0
	}
}
