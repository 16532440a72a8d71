// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// device is the variable of all expressions.
const device = "device"

const (
	attributes = "attributes"
	capacity   = "capacity"
	has        = "has"
)

var factory = ast.NewExprFactory()

// dialect recognises the expression whose members are attributes: the variable itself in the
// prototype, and a domain in v1. The ID of the returned place is empty.
type dialect func(ast.Expr) (Place, bool)

// target returns the rewritten container of an attribute, and the name of the member in it.
type target func(Place) (container ast.Expr, member string, err error)

func fromPrototype(e ast.Expr) (Place, bool) { return Place{}, isDevice(e) }

func fromV1(e ast.Expr) (Place, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
		return Place{}, false
	}
	args := e.AsCall().Args()
	domain, isText := text(args[1])
	if !isText || args[0].Kind() != ast.SelectKind || !isDevice(args[0].AsSelect().Operand()) {
		return Place{}, false
	}
	section := args[0].AsSelect().FieldName()
	return Place{Domain: domain, Capacity: section == capacity}, section == attributes || section == capacity
}

// domainOf returns the expression in v1 whose members are the attributes or capacities of a domain.
func domainOf(p Place) ast.Expr {
	section := attributes
	if p.Capacity {
		section = capacity
	}
	return index(factory.NewSelect(0, factory.NewIdent(0, device), section), p.Domain)
}

func isDevice(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.TrimPrefix(e.AsIdent(), ".") == device
}

func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	value, ok := e.AsLiteral().(types.String)
	return string(value), ok
}

func literal(text string) ast.Expr { return factory.NewLiteral(0, types.String(text)) }

func index(container ast.Expr, member string) ast.Expr {
	return factory.NewCall(0, operators.Index, container, literal(member))
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	keywords   = []string{"in", "true", "false", "null"}
)

// selectable reports whether a member can be accessed with a dot.
func selectable(member string) bool {
	return identifier.MatchString(member) && !slices.Contains(keywords, member)
}

type rewriter struct {
	from dialect
	to   target
	errs []error
}

// visit rewrites e and everything below it.
func (r *rewriter) visit(e ast.Expr) {
	for _, form := range []func(ast.Expr) bool{r.present, r.member, r.call} {
		if form(e) {
			return
		}
	}
	if isDevice(e) {
		r.fail(errors.New("device is used for something else than reading an attribute by its name"))
	}
	for _, child := range children(e) {
		r.visit(child)
	}
}

func (r *rewriter) fail(err error) { r.errs = append(r.errs, err) }

// replace rewrites an access to a member, with an expression that build makes. It reports whether
// the container is one of attributes.
func (r *rewriter) replace(e, container ast.Expr, member string, build func(container ast.Expr, member string) ast.Expr) bool {
	place, found := r.from(container)
	if !found {
		return false
	}
	place.ID = member
	to, name, err := r.to(place)
	if err != nil {
		r.fail(err)
		return true
	}
	e.SetKindCase(build(to, name))
	return true
}

// present handles has(container.member).
func (r *rewriter) present(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	call := e.AsCall()
	if call.IsMemberFunction() || call.FunctionName() != has || len(call.Args()) != 1 || call.Args()[0].Kind() != ast.SelectKind {
		return false
	}
	selected := call.Args()[0].AsSelect()
	return r.replace(e, selected.Operand(), selected.FieldName(), func(container ast.Expr, member string) ast.Expr {
		if selectable(member) {
			return factory.NewCall(0, has, factory.NewSelect(0, container, member))
		}
		return factory.NewCall(0, operators.In, literal(member), container)
	})
}

func access(container ast.Expr, member string) ast.Expr {
	if selectable(member) {
		return factory.NewSelect(0, container, member)
	}
	return index(container, member)
}

// member handles container.member.
func (r *rewriter) member(e ast.Expr) bool {
	if e.Kind() != ast.SelectKind {
		return false
	}
	selected := e.AsSelect()
	return r.replace(e, selected.Operand(), selected.FieldName(), access)
}

// call handles container["member"], the same with optional syntax, and "member" in container.
func (r *rewriter) call(e ast.Expr) bool {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 || e.AsCall().IsMemberFunction() {
		return false
	}
	args := e.AsCall().Args()
	first, firstIsText := text(args[0])
	second, secondIsText := text(args[1])
	switch e.AsCall().FunctionName() {
	case operators.Index:
		return secondIsText && r.replace(e, args[0], second, access)
	case operators.OptSelect, operators.OptIndex:
		return secondIsText && r.replace(e, args[0], second, optional)
	case operators.In:
		return firstIsText && r.replace(e, args[1], first, func(container ast.Expr, member string) ast.Expr {
			return factory.NewCall(0, operators.In, literal(member), container)
		})
	}
	return false
}

func optional(container ast.Expr, member string) ast.Expr {
	if selectable(member) {
		return factory.NewCall(0, operators.OptSelect, container, literal(member))
	}
	return factory.NewCall(0, operators.OptIndex, container, literal(member))
}

// children returns the direct children. There are no comprehensions, because macros are not
// expanded.
func children(e ast.Expr) []ast.Expr {
	var list []ast.Expr
	switch e.Kind() {
	case ast.CallKind:
		if call := e.AsCall(); call.IsMemberFunction() {
			list = append(list, call.Target())
		}
		list = append(list, e.AsCall().Args()...)
	case ast.SelectKind:
		list = append(list, e.AsSelect().Operand())
	case ast.ListKind:
		list = append(list, e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			list = append(list, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, entry := range e.AsStruct().Fields() {
			list = append(list, entry.AsStructField().Value())
		}
	}
	return list
}

// conjunctsOf returns the operands of &&, in order.
func conjunctsOf(e ast.Expr) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd {
		return []ast.Expr{e}
	}
	var all []ast.Expr
	for _, arg := range e.AsCall().Args() {
		all = append(all, conjunctsOf(arg)...)
	}
	return all
}

// driverIn returns the driver in device.driver == "driver".
func driverIn(e ast.Expr) (string, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Equals {
		return "", false
	}
	args := e.AsCall().Args()
	driver, isText := text(args[1])
	if !isText || args[0].Kind() != ast.SelectKind {
		return "", false
	}
	selected := args[0].AsSelect()
	return driver, isDevice(selected.Operand()) && selected.FieldName() == "driver"
}
