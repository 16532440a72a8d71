// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is one small change of a program: text takes the place of what stands from start to end.
type mutant struct {
	pkg        *source
	path       string
	line       int
	start, end int
	rule       string
	before     string
	after      string
	// form writes Go that does either, as the number says that the process was started with. It
	// gets the text of before, in which other mutants may be.
	form func(id int, before string) string
}

// finder collects the mutants of a file.
type finder struct {
	source *source
	file   file
	// imports has the name under which the file knows a package.
	imports map[string]string
	found   []mutant
	// results are those of the functions around what is looked at.
	results []*types.Tuple
}

func find(s *source, f file) []mutant {
	if ast.IsGenerated(f.tree) {
		return nil
	}
	w := &finder{source: s, file: f, imports: make(map[string]string)}
	for _, spec := range f.tree.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		for _, p := range s.types.Imports() {
			if p.Path() == path {
				w.imports[path] = p.Name()
			}
		}
		if spec.Name != nil {
			w.imports[path] = spec.Name.Name
		}
	}
	for _, d := range f.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			w.function(fn.Body, w.source.info.Defs[fn.Name].Type().(*types.Signature))
		}
	}
	return w.found
}

func (w *finder) at(p token.Pos) int { return w.source.fset.Position(p).Offset }

func (w *finder) text(n ast.Node) string { return string(w.file.text[w.at(n.Pos()):w.at(n.End())]) }

// add notes that after may stand where n is.
func (w *finder) add(n ast.Node, rule, after string, form func(id int, before string) string) {
	w.found = append(w.found, mutant{
		pkg: w.source, path: w.file.path, line: w.source.fset.Position(n.Pos()).Line,
		start: w.at(n.Pos()), end: w.at(n.End()), rule: rule, before: w.text(n), after: after, form: form,
	})
}

// function looks at a body, whose first statement may be to return.
func (w *finder) function(body *ast.BlockStmt, signature *types.Signature) {
	w.results = append(w.results, signature.Results())
	defer func() { w.results = w.results[:len(w.results)-1] }()
	if zeros, ok := w.zeros(signature.Results()); ok && len(body.List) > 0 && !isReturn(body.List[0]) {
		first := body.List[0]
		after := strings.TrimSpace("return " + zeros)
		w.add(first, "return early", after+"\n"+firstLine(w.text(first)), func(id int, before string) string {
			return fmt.Sprintf("if mutantIs(%d) { %s }; %s", id, after, before)
		})
	}
	w.block(body)
}

// block looks at statements. Those of a list can be left out.
func (w *finder) block(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if signature, ok := w.source.info.TypeOf(n).(*types.Signature); ok {
				w.function(n.Body, signature)
			}
			return false
		case *ast.BlockStmt:
			w.statements(n.List)
		case *ast.CaseClause:
			w.statements(n.Body)
			for _, s := range n.Body {
				w.block(s)
			}
			if !w.hasConstants(n) {
				for _, e := range n.List {
					w.block(e)
				}
			}
			return false
		case *ast.CommClause:
			w.statements(n.Body)
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.IfStmt:
			w.condition(n.Cond)
		case ast.Expr:
			return w.expression(n)
		}
		return true
	})
}

// hasConstants reports whether a case lists constants, of which there may not be two alike.
func (w *finder) hasConstants(n *ast.CaseClause) bool {
	return slices.ContainsFunc(n.List, func(e ast.Expr) bool {
		tv := w.source.info.Types[e]
		return tv.Value != nil || tv.IsType()
	})
}

func (w *finder) condition(e ast.Expr) {
	switch e.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr:
		return // They have rules of their own.
	}
	w.add(e, "negate condition", "!("+w.text(e)+")", func(id int, before string) string {
		return fmt.Sprintf("(mutantIs(%d) != (%s))", id, before)
	})
}

func (w *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.SendStmt, *ast.IncDecStmt:
			w.remove(s)
			if s, ok := s.(*ast.IncDecStmt); ok {
				w.swapStatement(s, "swap ++ and --", strings.NewReplacer("++", "--", "--", "++").Replace(w.text(s)))
			}
		case *ast.BranchStmt:
			if s.Tok == token.CONTINUE || s.Tok == token.BREAK {
				w.remove(s)
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
			w.remove(s)
			if s.Tok == token.ADD_ASSIGN && w.isNumber(s.Lhs[0]) {
				w.swapStatement(s, "swap += and -=", strings.Replace(w.text(s), "+=", "-=", 1))
			} else if s.Tok == token.SUB_ASSIGN {
				w.swapStatement(s, "swap += and -=", strings.Replace(w.text(s), "-=", "+=", 1))
			}
		case *ast.ReturnStmt:
			w.returned(s)
		}
	}
}

func (w *finder) remove(s ast.Stmt) {
	w.add(s, "remove statement", "", func(id int, before string) string {
		return fmt.Sprintf("if !mutantIs(%d) { %s }", id, before)
	})
}

func (w *finder) swapStatement(s ast.Stmt, rule, after string) {
	w.add(s, rule, after, func(id int, before string) string {
		return fmt.Sprintf("if mutantIs(%d) { %s } else { %s }", id, after, before)
	})
}

// returned has a result replaced by the zero value, and a truth by its opposite.
func (w *finder) returned(s *ast.ReturnStmt) {
	results := w.results[len(w.results)-1]
	if len(s.Results) != results.Len() {
		return
	}
	for i, e := range s.Results {
		t := results.At(i).Type()
		after, ok := w.zero(t)
		if isBool(t) {
			after = "!(" + w.text(e) + ")"
		} else if !ok || w.isZero(e) {
			continue
		}
		texts := make([]string, len(s.Results))
		for j, other := range s.Results {
			if texts[j] = w.text(other); j == i {
				texts[j] = after
			}
		}
		w.swapStatement(s, "change result", "return "+strings.Join(texts, ", "))
	}
}

// expression looks at what is calculated, and reports whether to look into it.
func (w *finder) expression(e ast.Expr) bool {
	tv := w.source.info.Types[e]
	if tv.IsType() {
		return false
	}
	if tv.Value != nil {
		w.constant(e, tv)
		return false // What is in a constant has to be one.
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		w.binary(e)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			w.add(e, "negate", w.text(e.X), func(id int, before string) string {
				return fmt.Sprintf("(mutantIs(%d) != (%s))", id, before)
			})
		}
	case *ast.CallExpr:
		if name, ok := e.Fun.(*ast.Ident); ok && (name.Name == "min" || name.Name == "max") && w.source.info.Types[e.Fun].IsBuiltin() {
			other := map[string]string{"min": "max", "max": "min"}[name.Name]
			w.swap(e, "swap min and max", other+strings.TrimPrefix(w.text(e), name.Name))
		}
	}
	return true
}

// opposites of comparisons: what holds where the first does not. Bounds: with or without what is equal.
var (
	opposites = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
	}
	bounds = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	sums   = map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL}
)

func (w *finder) binary(e *ast.BinaryExpr) {
	with := func(op token.Token) string { return w.text(e.X) + " " + op.String() + " " + w.text(e.Y) }
	if op, ok := opposites[e.Op]; ok {
		w.add(e, "negate comparison", with(op), func(id int, before string) string {
			return fmt.Sprintf("(mutantIs(%d) != (%s))", id, before)
		})
	}
	if op, ok := bounds[e.Op]; ok {
		w.add(e, "move bound", with(op), func(id int, before string) string {
			return fmt.Sprintf("(mutantIs(%d) && (%s) || !mutantIs(%d) && (%s))", id, with(op), id, before)
		})
	}
	if op, ok := sums[e.Op]; ok && w.isNumber(e) {
		w.swap(e, "swap "+e.Op.String()+" and "+op.String(), with(op))
	}
	if e.Op == token.LAND || e.Op == token.LOR {
		for _, side := range []ast.Expr{e.X, e.Y} {
			form, word := "(mutantIs(%d) || (%s))", "true"
			if e.Op == token.LOR {
				form, word = "(!mutantIs(%d) && (%s))", "false"
			}
			w.add(side, "drop condition", word, func(id int, before string) string { return fmt.Sprintf(form, id, before) })
		}
	}
}

// constant has a number changed by one, and a truth by its opposite.
func (w *finder) constant(e ast.Expr, tv types.TypeAndValue) {
	switch literal := e.(type) {
	case *ast.BasicLit:
		if literal.Kind == token.INT && tv.Value.Kind() == constant.Int {
			after := constant.BinaryOp(tv.Value, token.ADD, constant.MakeInt64(1))
			w.swap(e, "change number", after.String())
		}
	case *ast.Ident:
		if literal.Name == "true" || literal.Name == "false" {
			w.swap(e, "change truth", map[string]string{"true": "false", "false": "true"}[literal.Name])
		}
	}
}

// swap has an expression replaced by another one of its type.
func (w *finder) swap(e ast.Expr, rule, after string) {
	name, ok := w.name(w.source.info.TypeOf(e))
	if !ok {
		return
	}
	w.add(e, rule, after, func(id int, before string) string {
		return fmt.Sprintf("func() %s { if mutantIs(%d) { return %s }; return %s }()", name, id, after, before)
	})
}

func (w *finder) isNumber(e ast.Expr) bool {
	basic, ok := w.source.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

func isBool(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsBoolean != 0
}

func (w *finder) isZero(e ast.Expr) bool {
	tv := w.source.info.Types[e]
	if tv.IsNil() {
		return true
	}
	if v := tv.Value; v != nil {
		switch v.Kind() {
		case constant.Bool:
			return !constant.BoolVal(v)
		case constant.String:
			return constant.StringVal(v) == ""
		default:
			return constant.Sign(v) == 0
		}
	}
	literal, ok := e.(*ast.CompositeLit)
	return ok && len(literal.Elts) == 0
}

func isReturn(s ast.Stmt) bool {
	_, ok := s.(*ast.ReturnStmt)
	return ok
}

// name writes a type as the file would, if it can.
func (w *finder) name(t types.Type) (string, bool) {
	ok := true
	name := types.TypeString(types.Default(t), func(p *types.Package) string {
		if p == w.source.types {
			return ""
		}
		name := w.imports[p.Path()]
		ok = ok && name != "" && name != "." && name != "_"
		return name
	})
	return name, ok && !strings.Contains(name, "invalid")
}

func (w *finder) zero(t types.Type) (string, bool) {
	name, ok := w.name(t)
	return "*new(" + name + ")", ok
}

func (w *finder) zeros(results *types.Tuple) (string, bool) {
	var zeros []string
	for v := range results.Variables() {
		zero, ok := w.zero(v.Type())
		if !ok {
			return "", false
		}
		zeros = append(zeros, zero)
	}
	return strings.Join(zeros, ", "), true
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
