// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
	resourceapi "k8s.io/api/resource/v1"
)

// Place is the location in v1 of a prototype attribute.
type Place struct {
	Domain, ID string
	// Capacity says that it is a capacity of a device, not an attribute.
	Capacity bool
}

// Check returns an error if the expression is too long or does not parse. It does not check types,
// since attributes of the prototype have no declared types.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// Normal returns the expression in the form that ToV1 and then FromV1 would return: white space,
// quotes and parentheses are normalized.
func Normal(text string) (string, error) {
	return rewrite(text, fromPrototype, func(p Place) (ast.Expr, string, error) {
		return factory.NewIdent(0, device), p.ID, nil
	})
}

// ToV1 rewrites an expression of the prototype. resolve returns the location of an attribute in v1.
// The error lists everything that cannot be rewritten.
func ToV1(text string, resolve func(name string) (Place, error)) (string, error) {
	return rewrite(text, fromPrototype, func(p Place) (ast.Expr, string, error) {
		found, err := resolve(p.ID)
		if err != nil {
			return nil, "", fmt.Errorf("attribute %s: %w", p.ID, err)
		}
		return domainOf(found), found.ID, nil
	})
}

// FromV1 rewrites an expression of v1. resolve returns the prototype's name of an attribute or a
// capacity. The error lists everything that cannot be rewritten.
func FromV1(text string, resolve func(Place) (string, error)) (string, error) {
	return rewrite(text, fromV1, func(p Place) (ast.Expr, string, error) {
		name, err := resolve(p)
		if err != nil {
			return nil, "", fmt.Errorf("%s/%s: %w", p.Domain, p.ID, err)
		}
		return factory.NewIdent(0, device), name, nil
	})
}

// parse does not expand macros, so that they are printed unchanged.
func parse(text string) (*ast.AST, error) {
	if len(text) > resourceapi.CELSelectorExpressionMaxLength {
		return nil, fmt.Errorf("is %d bytes long, at most %d are allowed", len(text), resourceapi.CELSelectorExpressionMaxLength)
	}
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return nil, err
	}
	parsed, issues := p.Parse(common.NewTextSource(text))
	if all := issues.GetErrors(); len(all) > 0 {
		first := all[0]
		if first.Location.Line() < 1 {
			return nil, errors.New(first.Message) // an error about the whole expression
		}
		return nil, fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
	}
	return parsed, nil
}

func rewrite(text string, from dialect, to target) (string, error) {
	parsed, err := parse(text)
	if err != nil {
		return "", err
	}
	r := &rewriter{from: from, to: to}
	r.visit(parsed.Expr())
	if len(r.errs) > 0 {
		return "", errors.Join(r.errs...)
	}
	// All in one line: only people break lines where it helps reading.
	return parser.Unparse(parsed.Expr(), parsed.SourceInfo(), parser.WrapOnColumn(math.MaxInt))
}

// SplitDriver splits an expression of v1 that is true only for devices of one driver. It returns
// the driver and the rest of the condition, "" if there is none.
func SplitDriver(text string) (driver, rest string, err error) {
	parsed, err := parse(text)
	if err != nil {
		return "", "", err
	}
	// The operands of && are a left-leaning or a balanced tree.
	conjuncts := conjunctsOf(parsed.Expr())
	driver, found := driverIn(conjuncts[0])
	if !found {
		return "", "", errors.New(`it does not begin with device.driver == "..."`)
	}
	for i, conjunct := range conjuncts[1:] {
		one, err := parser.Unparse(conjunct, parsed.SourceInfo(), parser.WrapOnColumn(math.MaxInt))
		if err != nil {
			return "", "", err
		}
		if i > 0 {
			rest += " && "
		}
		if len(conjuncts) > 2 {
			one = "(" + one + ")"
		}
		rest += one
	}
	return driver, rest, nil
}
