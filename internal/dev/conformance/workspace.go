// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// layOut writes the module of a part to folder: the adapter, and a go.mod that requires what
// Dray's module requires, so that the counterpart has the version that Dray is built with.
func layOut(ctx context.Context, part Part, checkout, folder string) error {
	module := filepath.Join(checkout, part.module)
	goMod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return err
	}
	_, requirements, found := strings.Cut(string(goMod), "\n")
	if !found {
		return fmt.Errorf("%s: a module line and nothing else", filepath.Join(module, "go.mod"))
	}
	text := "module " + path.Join(part.Counterpart, part.below) + "\n" + requirements
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(module, "go.sum"), filepath.Join(folder, "go.sum")); err != nil {
		return err
	}
	if part.adapter != "" {
		files, err := fs.Sub(adapters, path.Join("testdata", part.adapter))
		if err != nil {
			return err
		}
		if err := os.CopyFS(folder, files); err != nil {
			return err
		}
	}
	edits := []string{"mod", "edit"}
	if part.names != nil && part.names.Version != "" {
		edits = append(edits, "-require="+part.Counterpart+"@"+part.names.Version)
	}
	for name, below := range part.modules() {
		edits = append(edits, "-require="+name+"@v0.0.0", "-replace="+name+"="+filepath.Join(checkout, below))
	}
	if _, err := command(ctx, folder, "go", edits...); err != nil {
		return err
	}
	if part.inPackage != nil {
		return part.inPackage.layOut(ctx, part, module, folder)
	}
	return nil
}

// inPackage are tests that are compiled as part of the package that they test.
type inPackage struct {
	sources string   // the folder of Dray's package, below its module; "" if the adapter has all
	tests   []string // the files of the counterpart's, below its
	// LeftOut are the tests of those files which have no meaning for Dray, with why.
	LeftOut map[string]string
}

func (in *inPackage) layOut(ctx context.Context, part Part, module, folder string) error {
	if in.sources != "" {
		if err := copyPackage(filepath.Join(module, in.sources), folder); err != nil {
			return err
		}
	}
	counterpart, err := command(ctx, folder, "go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", part.Counterpart)
	if err != nil {
		return err
	}
	missing := maps.Clone(in.LeftOut)
	for _, file := range in.tests {
		tests, err := os.ReadFile(filepath.Join(counterpart, file))
		if err != nil {
			return err
		}
		text, cut, err := without(tests, in.LeftOut)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range cut {
			delete(missing, name)
		}
		if err := os.WriteFile(filepath.Join(folder, path.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: there is no %s", strings.Join(in.tests, ", "), strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return nil
}

// copyPackage copies the sources of a package without its tests.
func copyPackage(from, to string) error {
	sources, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		if err := copyFile(source, filepath.Join(to, filepath.Base(source))); err != nil {
			return err
		}
	}
	return nil
}

// without returns the source without these functions, and which of them it had. Imports that
// nothing else uses become blank.
func without(source []byte, functions map[string]string) (text []byte, had []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	used := make(map[string]bool)
	var cuts []ast.Node // later ones last
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && functions[function.Name.Name] != "" {
			had = append(had, function.Name.Name)
			cuts = append(cuts, function)
			continue
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				if name, ok := selector.X.(*ast.Ident); ok {
					used[name.Name] = true
				}
			}
			return true
		})
	}
	text = slices.Clone(source)
	for _, cut := range slices.Backward(cuts) {
		text = slices.Delete(text, fset.Position(cut.Pos()).Offset, fset.Position(cut.End()).Offset)
	}
	for _, spec := range slices.Backward(file.Imports) {
		if !used[importName(spec)] {
			text = slices.Replace(text, fset.Position(spec.Pos()).Offset, fset.Position(spec.End()).Offset, []byte("_ "+spec.Path.Value)...)
		}
	}
	return text, had, nil
}

var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// importName is the name of an import, or that which a package of its path should have.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(majorVersion.ReplaceAllString(strings.Trim(spec.Path.Value, `"`), ""))
}

// version returns the version of the counterpart that the module in folder is built with. The go command gets more environment
// than this process has.
func version(ctx context.Context, part Part, folder string, environment ...string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-m", "-f", "{{.Version}}", part.Counterpart)
	list.Dir = folder
	list.Env = append(list.Environ(), environment...)
	output, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", part.Counterpart, err)
	}
	return strings.TrimSpace(string(output)), nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}
