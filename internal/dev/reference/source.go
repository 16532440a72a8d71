// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference writes docs/reference.md from the source code of the scheduler and of the node agent, which are
// modules of their own:
//
//	schedplugin, agent ─► metrics, reasons of Events, configuration ─► page
//	events.yaml ───────► what each reason means
package reference

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Source is the code of a folder and of the folders below it, without tests.
type Source struct {
	files     []sourceFile
	constants map[string]string // by folder and name, and by package and name
}

type sourceFile struct {
	folder string
	syntax *ast.File
}

// Load parses the code below a folder.
func Load(folder string) (*Source, error) {
	s := &Source{constants: make(map[string]string)}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		file := sourceFile{folder: filepath.Dir(path), syntax: syntax}
		s.files = append(s.files, file)
		s.addConstants(file)
		return nil
	})
	if err == nil && len(s.files) == 0 {
		err = errors.New("no Go files")
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", folder, err)
	}
	return s, nil
}

func (s *Source) addConstants(file sourceFile) {
	for _, declaration := range file.syntax.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for i, value := range spec.(*ast.ValueSpec).Values {
				if text, ok := literal(value); ok {
					name := spec.(*ast.ValueSpec).Names[i].Name
					s.constants[file.folder+"."+name] = text
					s.constants[file.syntax.Name.Name+"."+name] = text
				}
			}
		}
	}
}

// text is what an expression says: a literal, or a constant of its package or of another one.
func (s *Source) text(folder string, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return literal(e)
	case *ast.Ident:
		text, ok := s.constants[folder+"."+e.Name]
		return text, ok
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			text, ok := s.constants[pkg.Name+"."+e.Sel.Name]
			return text, ok
		}
	}
	return "", false
}

func literal(e ast.Expr) (string, bool) {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}

// Metric is one that a program has.
type Metric struct {
	Name, Kind, Help string
	Labels           []string
}

var metricMaker = regexp.MustCompile(`^New(Counter|Gauge|Histogram)(Vec)?$`)

// Metrics are those that the code makes, by name.
func (s *Source) Metrics() []Metric {
	var found []Metric
	for _, file := range s.files {
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			function, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			kind := metricMaker.FindStringSubmatch(function.Sel.Name)
			options, isPointer := call.Args[0].(*ast.UnaryExpr)
			if kind == nil || !isPointer {
				return true
			}
			m := Metric{Kind: strings.ToLower(kind[1])}
			fields := s.fields(file.folder, options.X)
			m.Name, m.Help = fields["Name"], fields["Help"]
			if prefix := fields["Subsystem"]; prefix != "" {
				m.Name = prefix + "_" + m.Name
			}
			if len(call.Args) > 1 {
				m.Labels = s.list(file.folder, call.Args[1])
			}
			found = append(found, m)
			return true
		})
	}
	slices.SortFunc(found, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// fields are the texts of a struct literal, by field.
func (s *Source) fields(folder string, e ast.Expr) map[string]string {
	texts := make(map[string]string)
	composite, ok := e.(*ast.CompositeLit)
	if !ok {
		return texts
	}
	for _, element := range composite.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if text, ok := s.text(folder, pair.Value); ok {
				texts[pair.Key.(*ast.Ident).Name] = text
			}
		}
	}
	return texts
}

func (s *Source) list(folder string, e ast.Expr) []string {
	var texts []string
	if composite, ok := e.(*ast.CompositeLit); ok {
		for _, element := range composite.Elts {
			if text, ok := s.text(folder, element); ok {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// reason is what the API server takes for the reason of an Event.
var reason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

var eventConstant = regexp.MustCompile(`\.event[A-Z][A-Za-z]*$`)

// recorders are functions that record an Event.
var recorders = []string{"Event", "Eventf", "event", "warn"}

// Reasons are those of the Events that the code records, sorted. Reasons that are put together at run time are not found.
func (s *Source) Reasons() []string {
	var found []string
	add := func(text string, ok bool) {
		if ok && isReason(text) {
			found = append(found, text)
		}
	}
	for name, text := range s.constants {
		// Functions get these from their callers.
		add(text, eventConstant.MatchString(name))
	}
	for _, file := range s.files {
		assigned := assignments(file.syntax)
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if function, ok := call.Fun.(*ast.SelectorExpr); !ok || !slices.Contains(recorders, function.Sel.Name) {
				return true
			}
			for i, argument := range call.Args {
				// What was done may follow the reason, as in Scheduling.
				if i > 0 && s.isReason(file.folder, call.Args[i-1]) {
					continue
				}
				add(s.text(file.folder, argument))
				if name, ok := argument.(*ast.Ident); ok {
					for _, text := range assigned[name.Name] {
						add(text, true)
					}
				}
			}
			return true
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// isReason reports whether an argument is a reason.
func (s *Source) isReason(folder string, e ast.Expr) bool {
	text, ok := s.text(folder, e)
	name, isName := e.(*ast.Ident)
	return ok && isReason(text) || isName && name.Name == "reason"
}

func isReason(text string) bool {
	return reason.MatchString(text) && text != "Normal" && text != "Warning"
}

// assignments are the texts that variables of a file get, by name.
func assignments(file *ast.File) map[string][]string {
	texts := make(map[string][]string)
	ast.Inspect(file, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && len(assign.Lhs) == 1 && len(assign.Rhs) == 1 {
			if name, ok := assign.Lhs[0].(*ast.Ident); ok {
				if text, ok := literal(assign.Rhs[0]); ok {
					texts[name.Name] = append(texts[name.Name], text)
				}
			}
		}
		return true
	})
	return texts
}

// Field is one of a configuration.
type Field struct{ Name, Type, Help string }

var jsonName = regexp.MustCompile(`json:"([^,"]+)`)

// Fields are those of a struct of the code, and of the structs that its fields have, in the order of the code.
func (s *Source) Fields(name string) []Field {
	declared := s.structType(name)
	if declared == nil {
		return nil
	}
	var found []Field
	for _, field := range declared.Fields.List {
		if len(field.Names) == 0 || field.Tag == nil {
			continue
		}
		key := jsonName.FindStringSubmatch(field.Tag.Value)
		if key == nil {
			continue
		}
		typed := typeName(field.Type)
		if nested := s.Fields(strings.TrimPrefix(typed, "*")); nested != nil {
			for _, inner := range nested {
				inner.Name = key[1] + "." + inner.Name
				found = append(found, inner)
			}
			continue
		}
		help := strings.Join(strings.Fields(field.Doc.Text()), " ")
		found = append(found, Field{Name: key[1], Type: strings.TrimPrefix(typed, "*"), Help: strings.TrimPrefix(strings.TrimPrefix(help, field.Names[0].Name+" "), "is ")})
	}
	return found
}

func (s *Source) structType(name string) *ast.StructType {
	for _, file := range s.files {
		for _, declaration := range file.syntax.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				if spec := spec.(*ast.TypeSpec); spec.Name.Name == name {
					declared, _ := spec.Type.(*ast.StructType)
					return declared
				}
			}
		}
	}
	return nil
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.ArrayType:
		return "list of " + typeName(e.Elt)
	}
	return ""
}
