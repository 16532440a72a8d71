// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// names are packages of a counterpart whose exported names Dray's packages have: a program
// changes the import. Each name, field and method is an outcome.
type names struct {
	// Version is required of the counterpart if Dray's module does not require it, else empty.
	Version string
	// Imports are the packages whose place Dray's take.
	Imports map[string]string
	// Internal are packages that programs of the counterpart cannot import, with Dray's whose types
	// have the place of theirs.
	Internal map[string]string
}

// compare type-checks both sides in the module of a folder. Dray's packages may have more.
func (n *names) compare(ctx context.Context, folder string) ([]Outcome, error) {
	packages := slices.Concat(slices.Sorted(maps.Keys(n.Imports)), slices.Sorted(maps.Values(n.Imports)))
	find, err := typeChecked(ctx, folder, packages)
	if err != nil {
		return nil, err
	}
	in := comparison{counterparts: make(map[string]string)}
	for theirs, ours := range n.Imports {
		in.counterparts[ours] = theirs
	}
	for theirs, ours := range n.Internal {
		in.counterparts[ours] = theirs
	}
	for _, place := range slices.Sorted(maps.Keys(n.Imports)) {
		theirs, err := find.Import(place)
		if err != nil {
			return nil, err
		}
		ours, err := find.Import(n.Imports[place])
		if err != nil {
			return nil, err
		}
		in.packages(theirs, ours)
	}
	slices.SortFunc(in.outcomes, func(a, b Outcome) int { return strings.Compare(a.Test, b.Test) })
	return in.outcomes, nil
}

// typeChecked has the go command compile packages, with what they import, and reads the types
// that they export.
func typeChecked(ctx context.Context, folder string, packages []string) (types.Importer, error) {
	text, err := command(ctx, folder, "go", append([]string{"list", "-mod=mod", "-export", "-deps", "-json=ImportPath,Export"}, packages...)...)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s was not built", path)
		}
		return os.Open(exports[path])
	}), nil
}

// comparison collects what became of each name.
type comparison struct {
	counterparts map[string]string // by the path of Dray's package
	outcomes     []Outcome
}

func (c *comparison) packages(theirs, ours *types.Package) {
	for _, name := range theirs.Scope().Names() {
		if their := theirs.Scope().Lookup(name); their.Exported() {
			c.object(theirs.Name()+"."+name, their, ours.Scope().Lookup(name))
		}
	}
}

// object compares one name. Of two types it compares what is inside.
func (c *comparison) object(name string, their, our types.Object) {
	theirs := c.text(their)
	if our == nil {
		c.outcome(name, theirs, "missing")
		return
	}
	c.outcome(name, theirs, c.text(our))
	if _, ok := their.(*types.TypeName); !ok {
		return
	}
	if _, ok := our.(*types.TypeName); !ok {
		return
	}
	c.members(name, their.Type(), our.Type())
}

// members compares the exported fields and methods of a type: what is selected from a value of
// it or of a pointer to it. An interface of ours has no method more: programs implement it.
func (c *comparison) members(name string, theirs, ours types.Type) {
	their, our := c.selected(theirs), c.selected(ours)
	for _, member := range slices.Sorted(maps.Keys(their)) {
		text, has := our[member]
		if !has {
			text = "missing"
		}
		c.outcome(name+"."+member, their[member], text)
	}
	if !types.IsInterface(ours) {
		return
	}
	for _, member := range slices.Sorted(maps.Keys(our)) {
		if _, has := their[member]; !has {
			c.outcome(name+"."+member, "missing", our[member])
		}
	}
}

// selected are the exported fields and methods of a type.
func (c *comparison) selected(of types.Type) map[string]string {
	out := make(map[string]string)
	if fields, ok := of.Underlying().(*types.Struct); ok {
		for field := range fields.Fields() {
			if field.Exported() {
				out[field.Name()] = c.text(field)
			}
		}
	}
	set := types.NewMethodSet(of)
	if !types.IsInterface(of) {
		set = types.NewMethodSet(types.NewPointer(of))
	}
	for method := range set.Methods() {
		if method.Obj().Exported() {
			out[method.Obj().Name()] = c.typeText(method.Type())
		}
	}
	return out
}

func (c *comparison) outcome(name, theirs, ours string) {
	outcome := Outcome{Test: name, Status: Passed}
	if theirs != ours {
		outcome.Status, outcome.Output = Failed, fmt.Sprintf("%s is\n\t%s\nwant\n\t%s\n", name, ours, theirs)
	}
	c.outcomes = append(c.outcomes, outcome)
}

// text says what an object is: equal texts can be used alike.
func (c *comparison) text(object types.Object) string {
	switch o := object.(type) {
	case *types.Const:
		return "const " + c.typeText(o.Type()) + " " + o.Val().ExactString()
	case *types.TypeName:
		switch under := o.Type().Underlying().(type) {
		case *types.Struct:
			return "struct"
		case *types.Interface:
			return "interface"
		default:
			return "type " + c.typeText(under)
		}
	case *types.Func:
		return c.typeText(o.Type())
	default:
		return "value " + c.typeText(o.Type())
	}
}

// typeText writes a type without aliases, without the names of parameters, and with the
// counterpart's packages in the place of Dray's.
func (c *comparison) typeText(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		name := t.Obj().Name()
		if pkg := t.Obj().Pkg(); pkg != nil {
			name = c.path(pkg) + "." + name
		}
		for argument := range t.TypeArgs().Types() {
			name += "[" + c.typeText(argument) + "]"
		}
		return name
	case *types.Pointer:
		return "*" + c.typeText(t.Elem())
	case *types.Slice:
		return "[]" + c.typeText(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), c.typeText(t.Elem()))
	case *types.Map:
		return "map[" + c.typeText(t.Key()) + "]" + c.typeText(t.Elem())
	case *types.Chan:
		return [...]string{types.SendRecv: "chan ", types.SendOnly: "chan<- ", types.RecvOnly: "<-chan "}[t.Dir()] + "(" + c.typeText(t.Elem()) + ")"
	case *types.Signature:
		text := "func" + c.tuple(t.Params())
		if t.Variadic() { // of the last parameter, which is a slice
			text = strings.TrimSuffix(text, ")") + "...)"
		}
		if t.Results().Len() > 0 {
			text += " " + c.tuple(t.Results())
		}
		return text
	default: // basic types, and types without a name, which mention packages rarely
		return types.TypeString(t, c.path)
	}
}

// path is that of the counterpart's package for one of Dray's that takes its place.
func (c *comparison) path(pkg *types.Package) string {
	if theirs, is := c.counterparts[pkg.Path()]; is {
		return theirs
	}
	return pkg.Path()
}

func (c *comparison) tuple(t *types.Tuple) string {
	var out []string
	for v := range t.Variables() {
		out = append(out, c.typeText(v.Type()))
	}
	return "(" + strings.Join(out, ", ") + ")"
}
