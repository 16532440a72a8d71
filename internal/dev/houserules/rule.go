// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import "fmt"

// Rule is something that holds all over the repository.
type Rule struct {
	Name  string
	Check func(*Repository) []Offence
}

// Rules are all rules that look at text only.
var Rules = []Rule{
	{Name: "imports", Check: checkImports},
	{Name: "sizes", Check: checkSizes},
	{Name: "names", Check: checkNames},
	{Name: "patterns", Check: checkPatterns},
	{Name: "references", Check: checkReferences},
	{Name: "words", Check: checkWords},
}

// Offence is one place where a rule does not hold.
type Offence struct {
	Path string
	Line int // 0 if the file as a whole offends
	Text string
}

func (o Offence) String() string {
	if o.Line == 0 {
		return fmt.Sprintf("%s: %s", o.Path, o.Text)
	}
	return fmt.Sprintf("%s:%d: %s", o.Path, o.Line, o.Text)
}

// perFile makes a check of the repository from a check of one Go file.
func perFile(check func(*File) []Offence) func(*Repository) []Offence {
	return func(r *Repository) []Offence {
		var offences []Offence
		for _, file := range r.GoFiles() {
			offences = append(offences, check(file)...)
		}
		return offences
	}
}
