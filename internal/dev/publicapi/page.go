// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package publicapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Users are the folders that use each name, by package and name: the products of this repository
// above all, since a name that none of them uses needs another reason.
type Users map[string]map[string][]string

// FindUsers reads all Go files below a folder but for tests.
func FindUsers(root string, packages []Package) (Users, error) {
	found := make(Users)
	for _, p := range packages {
		found[p.Path] = make(map[string][]string)
	}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found.note(file, room(filepath.ToSlash(folder)))
		return nil
	})
	return found, err
}

func (u Users) note(file *ast.File, room string) {
	imported := make(map[string]string)
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if u[path] == nil {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imported[name] = path
	}
	if len(imported) == 0 {
		return
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && imported[x.Name] != "" {
				u.add(imported[x.Name], s.Sel.Name, room)
			}
		}
		return true
	})
}

func (u Users) add(path, name, room string) {
	if list := u[path][name]; !slices.Contains(list, room) {
		u[path][name] = append(list, room)
	}
}

// room is the part of the repository that a folder belongs to, as people call it.
func room(folder string) string {
	for prefix, name := range map[string]string{
		"cmd/dray": "the command line", "internal/dev": "tests", "benchmarks": "benchmarks", "schedplugin": "the scheduler", "agent": "the node side",
	} {
		if folder == prefix || strings.HasPrefix(folder, prefix+"/") {
			return name
		}
	}
	folder, _, _ = strings.Cut(folder, "/internal")
	return folder
}

// Reasons say why a name is exported that no product uses, by package, or by package and name
// with a dot between. The paths are those below the module.
type Reasons map[string]string

// Page is the list, and what is wrong with it.
func Page(module string, packages []Package, users Users, reasons Reasons) (page string, faults []string) {
	var out strings.Builder
	out.WriteString("# What the library exports\n\n" +
		"Each name that a program may import from `" + module + "`, with what it is for and who uses it here. " +
		"A test writes this page (`go test ./internal/dev/publicapi -rewrite`) and fails if it is not current: so each change of the API is seen in review. " +
		"It fails, too, for a name that nobody uses and that has no reason, and for one that shows a type which importers cannot name.\n\n" +
		"The modules `agent` and `schedplugin` are not on it. Of `agent`, `make conformance-names` compares the packages that take the place of others. " +
		"Of `schedplugin`, a scheduler registers the plugin. The other packages there are parts of their programs, and may change before v1 without a word here.\n")
	unused := maps.Clone(reasons)
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Path, b.Path) })
	for _, p := range packages {
		short := strings.TrimPrefix(p.Path, module+"/")
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", short, p.Doc)
		whole, isWhole := reasons[short]
		delete(unused, short)
		if isWhole {
			fmt.Fprintf(&out, "\nWhy these names: %s.\n", whole)
		}
		met := reached(p, short, users, reasons)
		out.WriteString("\n| name | what it is for | for whom |\n|---|---|---|\n")
		for _, n := range p.Names {
			by := slices.DeleteFunc(slices.Sorted(slices.Values(users[p.Path][n.Name])), func(room string) bool {
				return room == "tests" || room == "benchmarks" || room == short
			})
			whom := strings.Join(by, ", ")
			if reason, ok := reasons[short+"."+n.Name]; ok {
				delete(unused, short+"."+n.Name)
				if whom != "" {
					faults = append(faults, fmt.Sprintf("%s.%s has a reason, and is used by %s: the reason is not needed", short, n.Name, whom))
				}
				whom = reason
			}
			switch {
			case whom != "":
			case isWhole:
				whom = "see above"
			case slices.Contains(met, n.Name):
				whom = "those who have the others"
			default:
				faults = append(faults, fmt.Sprintf("%s.%s is used by no product, and has no reason", short, n.Name))
			}
			if n.Doc == "" && !isWhole {
				faults = append(faults, fmt.Sprintf("%s.%s has no comment", short, n.Name))
			}
			for _, shown := range n.Internal {
				if !isWhole {
					faults = append(faults, short+": "+shown)
				}
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", cell(n.Form), cell(n.Doc), cell(whom))
			for _, member := range n.Members {
				fmt.Fprintf(&out, "| · `%s` | | |\n", cell(member))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		faults = append(faults, "there is a reason for "+name+", which is not there")
	}
	return out.String(), faults
}

// reached are the names that are used or have a reason, and those that whoever has one of these meets: they occur in what it
// has inside, takes or returns.
func reached(p Package, short string, users Users, reasons Reasons) []string {
	var out []string
	for _, n := range p.Names {
		if _, ok := reasons[short+"."+n.Name]; ok || len(users[p.Path][n.Name]) > 0 {
			out = append(out, n.Name)
		}
	}
	for i := 0; i < len(out); i++ {
		at := slices.IndexFunc(p.Names, func(n Name) bool { return n.Name == out[i] })
		for _, text := range append(slices.Clone(p.Names[at].Members), p.Names[at].Form) {
			for _, n := range p.Names {
				if !slices.Contains(out, n.Name) && hasWord(text, n.Name) {
					out = append(out, n.Name)
				}
			}
		}
	}
	return out
}

func hasWord(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}), word)
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}
