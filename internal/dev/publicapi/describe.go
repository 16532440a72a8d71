// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package publicapi

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// describe says what a name is, what it has inside that is exported, and which types it shows.
func describe(object types.Object, sentences map[string]string) Name {
	own := types.RelativeTo(object.Pkg())
	short := func(p *types.Package) string {
		if own(p) == "" {
			return ""
		}
		return p.Name()
	}
	out := Name{Name: object.Name(), Doc: sentences[object.Name()]}
	seen := &shown{home: object.Pkg()}
	switch object := object.(type) {
	case *types.TypeName:
		out.Form = "type " + object.Name() + kindOf(object)
		out.Members = members(object, short, seen)
	default:
		out.Form = types.ObjectString(object, short)
		seen.look(object.Type(), object.Name())
	}
	out.Internal = slices.Compact(slices.Sorted(slices.Values(seen.internal)))
	return out
}

func kindOf(object *types.TypeName) string {
	if object.IsAlias() {
		return " = " + types.TypeString(types.Unalias(object.Type()), func(p *types.Package) string { return p.Name() })
	}
	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		return " struct"
	case *types.Interface:
		return " interface"
	case *types.Signature:
		return " func"
	default:
		return " " + types.TypeString(under, func(p *types.Package) string { return p.Name() })
	}
}

// members are the exported fields and methods, in one line each.
func members(object *types.TypeName, short types.Qualifier, seen *shown) []string {
	if object.IsAlias() {
		seen.look(types.Unalias(object.Type()), object.Name())
		return nil
	}
	var out []string
	named, ok := object.Type().(*types.Named)
	if !ok {
		return nil
	}
	switch under := named.Underlying().(type) {
	case *types.Struct:
		for field := range under.Fields() {
			if field.Exported() {
				out = append(out, field.Name()+" "+types.TypeString(field.Type(), short))
				seen.look(field.Type(), object.Name()+"."+field.Name())
			}
		}
	case *types.Interface:
		for method := range under.Methods() {
			if method.Exported() {
				out = append(out, method.Name()+signature(method, short))
				seen.look(method.Type(), object.Name()+"."+method.Name())
			}
		}
	default:
		seen.look(under, object.Name())
	}
	for method := range named.Methods() {
		if method.Exported() {
			out = append(out, method.Name()+signature(method, short))
			seen.look(method.Type(), object.Name()+"."+method.Name())
		}
	}
	return out
}

func signature(f *types.Func, short types.Qualifier) string {
	return strings.TrimPrefix(types.TypeString(f.Type(), short), "func")
}

// shown collects where types are shown that those who import the package cannot name.
type shown struct {
	home     *types.Package
	internal []string
}

func (s *shown) look(t types.Type, where string) {
	switch t := t.(type) {
	case *types.Alias:
		s.named(t.Obj(), where)
	case *types.Named:
		s.named(t.Obj(), where)
		for argument := range t.TypeArgs().Types() {
			s.look(argument, where)
		}
	case *types.Pointer:
		s.look(t.Elem(), where)
	case *types.Slice:
		s.look(t.Elem(), where)
	case *types.Array:
		s.look(t.Elem(), where)
	case *types.Chan:
		s.look(t.Elem(), where)
	case *types.Map:
		s.look(t.Key(), where)
		s.look(t.Elem(), where)
	case *types.Signature:
		for _, list := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range list.Variables() {
				s.look(v.Type(), where)
			}
		}
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() {
				s.look(field.Type(), where)
			}
		}
	}
}

func (s *shown) named(object *types.TypeName, where string) {
	if p := object.Pkg(); p != nil && p != s.home && slices.Contains(strings.Split(p.Path(), "/"), "internal") {
		s.internal = append(s.internal, fmt.Sprintf("%s shows %s.%s", where, p.Path(), object.Name()))
	}
	if object.Pkg() == s.home && !object.Exported() {
		s.internal = append(s.internal, fmt.Sprintf("%s shows %s, which is not exported", where, object.Name()))
	}
}
