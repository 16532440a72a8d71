// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// switches is what each changed package gets. Files say which mutant lives, and where the mutants are noted that a
// process comes by. They are no variables of the environment: some programs start others with an empty one.
const switches = `package %s

import (
	mutantOS "os"
	mutantNumbers "strconv"
	mutantSync "sync"
)

var mutantLives, mutantNoted = mutantNow()

var mutantSeen mutantSync.Map

func mutantNow() (int, bool) {
	text, _ := mutantOS.ReadFile(%q)
	lives, _ := mutantNumbers.Atoi(string(text))
	_, err := mutantOS.Stat(%q)
	return lives, err == nil
}

func mutantIs(id int) bool {
	if mutantNoted {
		if _, seen := mutantSeen.LoadOrStore(id, true); !seen {
			if f, err := mutantOS.OpenFile(%[3]q, mutantOS.O_APPEND|mutantOS.O_WRONLY, 0); err == nil {
				f.WriteString(mutantNumbers.Itoa(id) + "\n")
				f.Close()
			}
		}
	}
	return mutantLives == id
}
`

// The files of a scratch folder that processes with mutants read and write.
const (
	livesFile   = "lives"
	reachedFile = "reached"
)

// overlay writes the files with all mutants in them to dir, and what the go command reads to take
// them in the place of those of the checkout.
func overlay(dir string, mutants []mutant) (string, error) {
	replace := make(map[string]string)
	byFile := make(map[string][]int)
	for i, m := range mutants {
		byFile[m.path] = append(byFile[m.path], i)
		replace[filepath.Join(filepath.Dir(m.path), "zz_mutants.go")] = filepath.Join(dir, "switches_"+strings.ReplaceAll(m.pkg.path, "/", "_")+".go")
	}
	for _, m := range mutants {
		path := replace[filepath.Join(filepath.Dir(m.path), "zz_mutants.go")]
		if err := os.WriteFile(path, fmt.Appendf(nil, switches, m.pkg.types.Name(), filepath.Join(dir, livesFile), filepath.Join(dir, reachedFile)), 0o644); err != nil {
			return "", err
		}
	}
	for path, ids := range byFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, fmt.Sprintf("file%d_%s", ids[0], filepath.Base(path)))
		if err := os.WriteFile(changed, []byte(rewrite(string(text), mutants, ids)), 0o644); err != nil {
			return "", err
		}
		replace[path] = changed
	}
	said, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, said, 0o644)
}

// rewrite puts the mutants with the indices ids into a text. One may be within another: then it is
// in the half that does what the program did.
func rewrite(text string, mutants []mutant, ids []int) string {
	slices.SortStableFunc(ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(mutants[a].start, mutants[b].start), cmp.Compare(mutants[b].end, mutants[a].end))
	})
	var write func(from, to int, ids []int) string
	write = func(from, to int, ids []int) string {
		var out strings.Builder
		for len(ids) > 0 {
			m := mutants[ids[0]]
			within := 1
			for within < len(ids) && mutants[ids[within]].end <= m.end {
				within++
			}
			out.WriteString(text[from:m.start])
			out.WriteString(m.form(ids[0]+1, write(m.start, m.end, ids[1:within])))
			from, ids = m.end, ids[within:]
		}
		out.WriteString(text[from:to])
		return out.String()
	}
	return write(0, len(text), ids)
}
