// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

const (
	// maxExpansion is the estimated number of nodes that an expression may have after macro expansion.
	// Compiling that many takes about a second.
	maxExpansion = 1e6
	// copiesOfTarget is the factor by which optMap and optFlatMap multiply their target: it is copied, and so
	// is the record of the expansion.
	copiesOfTarget = 4
	// harmlessMacros is how many of these macros never expand too far, however they are nested.
	harmlessMacros = 5
)

// checkExpansion refuses expressions that take too long to compile: x.optMap(v, v) copies x, so each call in a
// chain multiplies the size of the expression.
func checkExpansion(w *sharedEnv, expression string) error {
	if strings.Count(expression, "optMap")+strings.Count(expression, "optFlatMap") <= harmlessMacros {
		return nil
	}
	withoutMacros, err := w.env.Extend(cel.ClearMacros())
	if err != nil {
		return &CompileError{Expression: expression, Message: err.Error(), Err: err}
	}
	parsed, issues := withoutMacros.Parse(expression)
	if issues.Err() != nil {
		return firstIssue(expression, issues)
	}
	if size := expandedSize(ast.NavigateAST(parsed.NativeRep())); size > maxExpansion {
		return &CompileError{Expression: expression,
			Message: fmt.Sprintf("expands to about %.0e nodes, at most %.0e are allowed: chain fewer calls of optMap and optFlatMap", size, maxExpansion)}
	}
	return nil
}

// expandedSize estimates the number of nodes after expansion. It may exceed an integer.
func expandedSize(e ast.NavigableExpr) float64 {
	size := 1.0
	for i, child := range e.Children() {
		weight := 1.0
		if i == 0 && copiesItsTarget(e) {
			weight = copiesOfTarget
		}
		size += weight * expandedSize(child)
	}
	return size
}

func copiesItsTarget(e ast.NavigableExpr) bool {
	if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() {
		return false
	}
	name := e.AsCall().FunctionName()
	return name == "optMap" || name == "optFlatMap"
}
