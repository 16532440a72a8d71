// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// part is what an expression stands for: a place in the device, or a plain value. The reads of a plain value
// were recorded when it was visited.
type part struct {
	kind   partKind
	domain string // the domain of attributesOf and capacitiesOf
}

type partKind int

const (
	aValue partKind = iota
	theDevice
	allAttributes
	allCapacities
	attributesOf // one domain
	capacitiesOf // one domain
)

// analysis walks a checked expression and follows how parts of the device are selected. A part that is used in
// any other way makes the reads inexact.
type analysis struct {
	*readSet
	scope []binding // innermost last
}

type binding struct {
	name  string
	bound part
}

// analyse returns what the expression reads.
func analyse(e ast.Expr) Reads {
	a := &analysis{readSet: newReadSet()}
	a.use(e)
	return a.reads()
}

// use visits expressions whose whole value is used. A place that is used as a value makes the reads inexact.
func (a *analysis) use(exprs ...ast.Expr) {
	for _, e := range exprs {
		if a.visit(e).kind != aValue {
			a.inexact = true
		}
	}
}

func (a *analysis) visit(e ast.Expr) part {
	switch e.Kind() {
	case ast.IdentKind:
		return a.ident(e.AsIdent())
	case ast.SelectKind:
		s := e.AsSelect()
		return a.field(a.visit(s.Operand()), s.FieldName(), s.IsTestOnly())
	case ast.CallKind:
		return a.call(e.AsCall())
	case ast.ComprehensionKind:
		return a.comprehension(e.AsComprehension())
	case ast.ListKind:
		a.use(e.AsList().Elements()...)
	case ast.MapKind:
		a.entries(e.AsMap().Entries())
	case ast.StructKind:
		a.entries(e.AsStruct().Fields())
	}
	return part{}
}

func (a *analysis) entries(entries []ast.EntryExpr) {
	for _, entry := range entries {
		if entry.Kind() == ast.StructFieldKind {
			a.use(entry.AsStructField().Value())
			continue
		}
		a.use(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
	}
}

func (a *analysis) ident(name string) part {
	for i := len(a.scope) - 1; i >= 0; i-- {
		if a.scope[i].name == name {
			return a.scope[i].bound
		}
	}
	// A leading dot refers to the global name even if a local one hides it.
	if strings.TrimPrefix(name, ".") == deviceName {
		return part{kind: theDevice}
	}
	return part{} // the name of a type
}

func (a *analysis) call(c ast.CallExpr) part {
	switch args := c.Args(); c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		if key, ok := literalString(args[1]); ok {
			return a.field(a.visit(args[0]), key, false)
		}
	case operators.In:
		if key, ok := literalString(args[0]); ok {
			a.contains(a.visit(args[1]), key)
			return part{}
		}
	}
	if c.IsMemberFunction() {
		a.use(c.Target())
	}
	a.use(c.Args()...)
	return part{}
}

func literalString(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// field records the selection of a name from a part and returns the selected part. For an optional selection it
// is the same part: presence is read as well.
func (a *analysis) field(of part, name string, presence bool) part {
	switch of.kind {
	case theDevice:
		return a.deviceField(name, presence)
	case allAttributes, allCapacities:
		if presence {
			return part{} // every domain is present, if only as an empty map
		}
		return part{kind: of.kind + attributesOf - allAttributes, domain: name}
	case attributesOf:
		a.attributes[Name{of.domain, name}] = struct{}{}
	case capacitiesOf:
		a.capacities[Name{of.domain, name}] = struct{}{}
	}
	return part{}
}

func (a *analysis) deviceField(name string, presence bool) part {
	switch name {
	case driverName:
		a.driver = true
	case multipleName:
		a.multiple = true
	case attributesName, capacityName:
		if presence {
			break // always there
		}
		if name == attributesName {
			return part{kind: allAttributes}
		}
		return part{kind: allCapacities}
	default:
		a.inexact = true
	}
	return part{}
}

// contains records a membership test.
func (a *analysis) contains(in part, key string) {
	switch in.kind {
	case theDevice:
		a.inexact = true
	case allAttributes:
		a.attributeDomain[key] = struct{}{}
	case allCapacities:
		a.capDomain[key] = struct{}{}
	default:
		a.field(in, key, true)
	}
}

func (a *analysis) comprehension(c ast.ComprehensionExpr) part {
	mark := len(a.scope)
	defer func() { a.scope = a.scope[:mark] }()

	if isEmptyList(c.IterRange()) {
		// This is how cel.bind expands: a comprehension over an empty list, whose step is never evaluated. In
		// the result, the accumulator is the bound name.
		bound := a.visit(c.AccuInit())
		a.noteBinding(bound)
		a.scope = append(a.scope, binding{c.AccuVar(), bound})
		return a.visit(c.Result())
	}
	a.use(c.IterRange(), c.AccuInit())
	a.scope = append(a.scope, binding{name: c.AccuVar()}, binding{name: c.IterVar()})
	if c.HasIterVar2() {
		a.scope = append(a.scope, binding{name: c.IterVar2()})
	}
	a.use(c.LoopCondition(), c.LoopStep())
	a.scope = append(a.scope[:mark], binding{name: c.AccuVar()})
	a.use(c.Result())
	return part{}
}

// noteBinding: the interpreter replaces an empty map that is bound to a name. If a device has no attributes or
// no capacities, selecting an unknown domain is then an error instead of an empty map.
func (a *analysis) noteBinding(bound part) {
	switch bound.kind {
	case allAttributes:
		a.anyAttribute = true
	case allCapacities:
		a.anyCapacity = true
	}
}

func isEmptyList(e ast.Expr) bool {
	return e.Kind() == ast.ListKind && e.AsList().Size() == 0
}
