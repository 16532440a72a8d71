package houserules

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// room is a folder with everything below it that has no room of its own.
type room struct {
	folder  string
	imports []string // folders of ours that its code may import besides its own
}

// library is what people link.
var library = []string{"allocator", "pools", "cel", "internal/amount"}

// proof is what only tests, measurements and development run.
var proof = []string{"internal/oracle", "internal/clustergen", "internal/differential", "internal/peer", "internal/adversary", "benchmarks"}

// edges are where Dray meets the world: a cluster, a clock, chance, an
// environment, a log. Everything further in gets these handed in.
var edges = []string{"cmd", "schedplugin"}

// developing is what proof may import.
var developing = slices.Concat(proof, library, []string{"allocator/structured", "alloctest"})

// rooms is the direction of imports. Code outside all rooms is an offence, so
// that a new folder has to find its place here first.
var rooms = []room{
	{folder: "internal/amount"},
	{folder: "internal/houserules"},
	{folder: "pools", imports: []string{"internal/amount"}},
	{folder: "cel", imports: []string{"internal/amount"}},
	{folder: "allocator", imports: library},
	{folder: "allocator/structured", imports: library},
	{folder: "alloctest", imports: []string{"allocator"}},
	{folder: "simulate", imports: library},
	{folder: "schedplugin", imports: slices.Concat(library, []string{"simulate"})},
	{folder: "cmd", imports: slices.Concat(library, []string{"simulate"})},
	{folder: "internal/oracle", imports: developing},
	{folder: "internal/clustergen", imports: developing},
	{folder: "internal/differential", imports: developing},
	{folder: "internal/peer", imports: developing},
	{folder: "internal/adversary", imports: developing},
	{folder: "benchmarks", imports: developing},
}

// reservation keeps a foreign package to some folders.
type reservation struct {
	path    string
	folders []string
	tests   bool // tests of any folder may import it
}

func (r reservation) allows(f *File) bool { return allows(r.folders, f) || r.tests && f.IsTest() }

var reservations = []reservation{
	{path: "k8s.io/kubernetes", folders: []string{"schedplugin"}},
	{path: "k8s.io/dynamic-resource-allocation", folders: slices.Concat([]string{"allocator/structured"}, edges, proof), tests: true},
	{path: "k8s.io/client-go", folders: edges, tests: true},
	{path: "k8s.io/klog", folders: edges, tests: true},
	{path: "math/rand", folders: slices.Concat(proof, edges), tests: true},
	{path: "crypto/rand", folders: edges, tests: true},
	// Upstream's package draws its ShareIDs, and so does its replacement.
	{path: "github.com/google/uuid", folders: slices.Concat([]string{"allocator/structured"}, edges), tests: true},
	{path: "k8s.io/apimachinery/pkg/util/uuid", folders: slices.Concat([]string{"allocator/structured"}, edges), tests: true},
}

// edgeCalls read the clock or the environment.
var edgeCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"},
	"os":   {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
}

var checkImports = perFile(func(f *File) []Offence {
	var offences []Offence
	for _, spec := range f.Syntax.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		if text := importOffence(f, target); text != "" {
			offences = append(offences, Offence{f.Path, f.line(spec), text})
		}
	}
	return append(offences, edgeCallOffences(f)...)
})

func importOffence(f *File, target string) string {
	if folder, ours := strings.CutPrefix(target, Module+"/"); ours {
		return ownImportOffence(f, folder)
	}
	for _, r := range reservations {
		if within(target, r.path) && !r.allows(f) {
			return fmt.Sprintf("only %s may import %s", strings.Join(r.folders, ", "), r.path)
		}
	}
	return ""
}

// ownImportOffence lets tests import what they like: they are nobody's
// dependency.
func ownImportOffence(f *File, target string) string {
	from := roomOf(f.Folder())
	switch {
	case f.IsTest():
		return ""
	case from == nil:
		return "its folder has no place in the direction of imports"
	case roomOf(target) == nil:
		return fmt.Sprintf("%s has no place in the direction of imports", target)
	case roomOf(target) == from || slices.Contains(from.imports, roomOf(target).folder):
		return ""
	}
	return fmt.Sprintf("%s must not import %s", from.folder, target)
}

// roomOf is the innermost room around folder.
func roomOf(folder string) *room {
	var found *room
	for i, r := range rooms {
		if within(folder, r.folder) && (found == nil || len(r.folder) > len(found.folder)) {
			found = &rooms[i]
		}
	}
	return found
}

func allows(folders []string, f *File) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return within(f.Folder(), folder) })
}

func edgeCallOffences(f *File) []Offence {
	if f.IsTest() || allows(edges, f) || allows(proof, f) {
		return nil
	}
	var offences []Offence
	packages := packageNames(f)
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		target, name := qualified(node, packages)
		if slices.Contains(edgeCalls[target], name) {
			offences = append(offences, Offence{f.Path, f.line(node), fmt.Sprintf("only %s may use %s.%s", strings.Join(edges, ", "), target, name)})
		}
		return true
	})
	return offences
}

// qualified splits package.Name into the package's import path and the name.
func qualified(node ast.Node, packages map[string]string) (target, name string) {
	selector, ok := node.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	qualifier, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return packages[qualifier.Name], selector.Sel.Name
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// packageNames are the names by which a file knows the packages it imports.
func packageNames(f *File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Syntax.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(target)
		if majorVersion.MatchString(name) {
			name = path.Base(path.Dir(target))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = target
	}
	return names
}
