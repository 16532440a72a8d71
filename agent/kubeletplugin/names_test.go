package kubeletplugin

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNames compares with the source of upstream's package, at the version that this module
// is built with: each exported name is here, and functions and methods have the same
// parameters and results. Packages of one name are written alike in the names of types.
func TestNames(t *testing.T) {
	theirs := exported(t, sourceOf(t, "k8s.io/dynamic-resource-allocation/kubeletplugin"))
	ours := exported(t, ".")
	if len(theirs) < 50 {
		t.Fatalf("upstream's package has %d names: %v", len(theirs), theirs)
	}
	// What is here for drivers of Kubernetes 1.36, as doc.go says.
	differs := map[string]string{
		"EnableDeviceMetadata": "func(bool, ...[]schema.GroupVersion) Option",
	}
	for name, want := range theirs {
		got, has := ours[name]
		if !has && slices.Contains(embedded, name) {
			continue
		}
		if other, is := differs[name]; is {
			want = other
		}
		switch {
		case !has:
			t.Errorf("%s is missing", name)
		case got != want:
			t.Errorf("%s is %s, upstream's %s", name, got, want)
		}
	}
}

// embedded are the methods that Helper has from upstream's.
var embedded = []string{
	"Helper.RegistrationStatus", "Helper.SetGetInfoError", "Helper.SetNotifyRegistrationStatusError", "Helper.UpdateRequestMetadata",
	// And that of an alias.
	"NamespacedObject.String", "NamespacedObject.MarshalLog",
}

// Compile only if they are there.
var _ = []any{(*Helper).RegistrationStatus, (*Helper).SetGetInfoError, (*Helper).SetNotifyRegistrationStatusError, (*Helper).UpdateRequestMetadata}

func sourceOf(t *testing.T, pkg string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// exported are the exported names of the package in a folder, methods as Type.Method, with
// the signatures of functions.
func exported(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				name, ok := d.Name.Name, d.Name.IsExported()
				if d.Recv != nil {
					receiver := strings.TrimPrefix(source(t, fset, d.Recv.List[0].Type), "*")
					name, ok = receiver+"."+name, ok && ast.IsExported(receiver)
				}
				if ok {
					out[name] = signature(t, fset, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					for _, name := range namesOf(spec) {
						if name.IsExported() {
							out[name.Name] = ""
						}
					}
				}
			}
		}
	}
	return out
}

func namesOf(spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return []*ast.Ident{s.Name}
	case *ast.ValueSpec:
		return s.Names
	}
	return nil
}

// signature leaves out the names of parameters.
func signature(t *testing.T, fset *token.FileSet, function *ast.FuncType) string {
	t.Helper()
	unnamed := func(list *ast.FieldList) []string {
		var out []string
		if list == nil {
			return nil
		}
		for _, field := range list.List {
			for range max(1, len(field.Names)) {
				out = append(out, source(t, fset, field.Type))
			}
		}
		return out
	}
	results := unnamed(function.Results)
	text := "func(" + strings.Join(unnamed(function.Params), ", ") + ")"
	switch len(results) {
	case 0:
		return text
	case 1:
		return text + " " + results[0]
	}
	return text + " (" + strings.Join(results, ", ") + ")"
}

func source(t *testing.T, fset *token.FileSet, node ast.Node) string {
	t.Helper()
	var out bytes.Buffer
	if err := printer.Fprint(&out, fset, node); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
