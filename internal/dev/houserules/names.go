// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// emptyWords say nothing about what they name.
var emptyWords = []string{"helper", "manager", "util", "data", "info", "process", "try"}

// givenWords are empty words in names that an API gives, which a folder offers
// under the same names.
var givenWords = map[string][]string{
	"agent/claims":              {"info"}, // of registration with kubelet
	"agent/deviceplugin":        {"manager", "info"},
	"agent/internal/fakedriver": {"info"}, // of registration with kubelet
	"agent/kubeletplugin":       {"helper", "data"},
	"agent/provider/process":    {"process"}, // of the operating system
}

var checkNames = perFile(func(f *File) []Offence {
	var offences []Offence
	report := func(node ast.Node, kind, name string) {
		if word := emptyWord(name); word != "" && !slices.Contains(givenWords[f.Folder()], word) {
			offences = append(offences, Offence{f.Path, f.line(node), fmt.Sprintf("%s %s: %q says nothing", kind, name, word)})
		}
	}
	report(f.Syntax.Name, "package", f.Syntax.Name.Name)
	report(f.Syntax.Name, "file", strings.TrimSuffix(path.Base(f.Path), ".go"))
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		switch declared := node.(type) {
		case *ast.FuncDecl:
			report(declared, "function", declared.Name.Name)
		case *ast.TypeSpec:
			report(declared, "type", declared.Name.Name)
		}
		return true
	})
	return offences
})

var wordStart = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// emptyWord is the first empty word, singular or plural, among those that
// make up a name.
func emptyWord(name string) string {
	for _, word := range wordStart.FindAllString(name, -1) {
		word = strings.ToLower(word)
		if slices.Contains(emptyWords, word) || slices.Contains(emptyWords, strings.TrimSuffix(word, "s")) {
			return word
		}
	}
	return ""
}
