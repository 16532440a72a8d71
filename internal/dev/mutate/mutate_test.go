// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// program has what each rule changes. Its tests see some of that.
const program = `package program

import "errors"

var errNegative = errors.New("negative")

// Sum adds what is above from, and says whether there was any.
func Sum(numbers []int, from int) (sum int, any bool, err error) {
	for _, n := range numbers {
		if n < 0 {
			return 0, false, errNegative
		}
		if n <= from && n != 7 {
			continue
		}
		sum += n * 1
		any = true
	}
	return sum, any, nil
}

func Largest(a, b int64) int64 { return max(a, b) + 1 }

func Forgotten(count *int, on bool) {
	if !on {
		*count++
	}
}

const Fixed = 3

func Named(n int) string {
	switch n {
	case 1:
		return "one"
	case Fixed:
		return "three"
	}
	return ""
}
`

const programTest = `package program

import "testing"

func TestSum(t *testing.T) {
	if sum, some, err := Sum([]int{1, 2, 3}, 1); sum != 5 || !some || err != nil {
		t.Fatal(sum, some, err)
	}
}

func TestNegative(t *testing.T) {
	if _, _, err := Sum([]int{-1}, 0); err == nil {
		t.Fatal("no error")
	}
}

func TestNamed(t *testing.T) {
	if Named(1) != "one" || Named(3) != "three" || Named(2) != "" {
		t.Fatal("misnamed")
	}
}

func TestLargest(t *testing.T) {
	Largest(1, 2)
}
`

func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module program\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mutate(t *testing.T, args ...string) (out string) {
	t.Helper()
	var b, log strings.Builder
	if err := run(t.Context(), args, &b, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return b.String()
}

// Mutants that are not caught are listed with what a test would have to see, and those that no test reaches.
func TestSurvivors(t *testing.T) {
	dir := module(t, map[string]string{"program.go": program, "program_test.go": programTest})
	out := mutate(t, "-C", dir, "-n", "1000", ".")
	var got []string
	for line := range strings.Lines(out) {
		if where, what, found := strings.Cut(strings.TrimSpace(line), ": mutant "); found {
			_, what, _ = strings.Cut(what, ", ")
			got = append(got, where+": "+what)
		}
	}
	slices.Sort(got)
	want := []string{
		"program.go:10: change number: not caught", // No number is 0.
		"program.go:10: move bound: not caught",
		"program.go:11: change number: not caught", // The error is looked at, and not the sum.
		"program.go:11: change result: not caught",
		"program.go:11: change truth: not caught",
		"program.go:13: change number: not caught", // No number is 7.
		"program.go:13: drop condition: not caught",
		"program.go:16: swap * and /: not caught",
		"program.go:22: change number: not caught", // Nobody looks at the largest.
		"program.go:22: change result: not caught",
		"program.go:22: swap + and -: not caught",
		"program.go:22: swap min and max: not caught",
		"program.go:25: negate: no test comes by",
		"program.go:25: return early: no test comes by",
		"program.go:26: remove statement: no test comes by",
		"program.go:26: swap ++ and --: no test comes by",
	}
	if !slices.Equal(got, want) {
		t.Errorf("survivors:\n%s\nwant:\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), out)
	}
	if before, err := os.ReadFile(filepath.Join(dir, "program.go")); err != nil || string(before) != program {
		t.Errorf("the program was changed: %v", err)
	}
}

// The same seed draws the same mutants, another one others, and -only keeps the numbers.
func TestSample(t *testing.T) {
	dir := module(t, map[string]string{"program.go": program})
	first := mutate(t, "-C", dir, "-n", "8", "-list", ".")
	if again := mutate(t, "-C", dir, "-n", "8", "-list", "."); again != first {
		t.Errorf("one seed draws\n%s\nand\n%s", first, again)
	}
	if other := mutate(t, "-C", dir, "-n", "8", "-seed", "2", "-list", "."); other == first {
		t.Error("another seed draws the same")
	}
	if fifth := mutate(t, "-C", dir, "-n", "8", "-only", "5", "-list", "."); !strings.Contains(fifth, ": mutant 5, ") || !strings.Contains(first, fifth) {
		t.Errorf("-only 5 of\n%s\nis\n%s", first, fifth)
	}
	if err := run(t.Context(), []string{"-C", dir, "-memory", "0", "-list", "."}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "-memory: 0") {
		t.Errorf("no memory: %v", err)
	}
	if err := run(t.Context(), []string{"-C", dir, "-n", "8", "-only", "9", "-list", "."}, io.Discard, io.Discard); err == nil {
		t.Error("there is a ninth of eight mutants")
	}
}

// A mutant that does not end, or that no memory is enough for, is caught.
func TestEndless(t *testing.T) {
	dir := module(t, map[string]string{
		"program.go":      "package program\n\nfunc Count(n int) (all []int) {\n\tfor n > 0 {\n\t\tall = append(all, n)\n\t\tn--\n\t}\n\treturn all\n}\n",
		"program_test.go": "package program\n\nimport \"testing\"\n\nfunc TestCount(t *testing.T) {\n\tif len(Count(3)) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
	})
	listed := mutate(t, "-C", dir, "-n", "1000", "-list", ".")
	var only []string
	for line := range strings.Lines(listed) {
		if _, what, found := strings.Cut(line, ": mutant "); found && strings.Contains(what, "swap ++ and --") {
			only = append(only, strings.SplitN(what, ",", 2)[0])
		}
	}
	out := mutate(t, "-C", dir, "-n", "1000", "-only", strings.Join(only, ","), "-memory", "1000", ".")
	if !strings.Contains(out, "1 of 1 mutants caught") {
		t.Error(out)
	}
}

// Mutants that a run printed can be run again after the program has changed, also from a file with another name.
func TestAgain(t *testing.T) {
	dir := module(t, map[string]string{"program.go": program})
	var want []string
	for _, line := range []string{": mutant 1, ", ": mutant 2, "} {
		sample := mutate(t, "-C", dir, "-n", "12", "-list", ".")
		_, text, _ := strings.Cut(sample, line)
		rule, text, _ := strings.Cut(text, ": in the sample\n")
		before, _, _ := strings.Cut(text, "\n")
		want = append(want, rule+" "+before)
	}
	printed := filepath.Join(t.TempDir(), "printed")
	if err := os.WriteFile(printed, []byte(mutate(t, "-C", dir, "-n", "2", "-list", ".")+"2 of 2 caught\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	moved := module(t, map[string]string{"other.go": strings.Replace(program, "// Sum", "func Unused() int { return 1 }\n\n// Sum", 1)})
	out := mutate(t, "-C", moved, "-again", printed, "-list", ".")
	for i, w := range want {
		rule, before, _ := strings.Cut(w, " -")
		if !strings.Contains(out, "mutant "+strconv.Itoa(i+1)+", "+rule+": in the sample\n-"+before) {
			t.Errorf("mutant %d is not %s:\n%s", i+1, w, out)
		}
	}
}

// Among mutants that look alike, the nearest is taken.
func TestAgainNearest(t *testing.T) {
	dir := module(t, map[string]string{"program.go": "package program\n\nvar n int\n\nfunc F() {\n\tn++\n}\n\nfunc G() {\n\tn++\n}\n"})
	printed := filepath.Join(t.TempDir(), "printed")
	said := "program.go:11: mutant 3, remove statement: not caught\n- n++\nprogram.go:9: mutant 4, remove statement: not caught\n- gone()\n"
	if err := os.WriteFile(printed, []byte(said), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, want := mutate(t, "-C", dir, "-again", printed, "-list", "."), "program.go:10: mutant 1, remove statement: in the sample\n- n++\n"; out != want {
		t.Errorf("the sample is\n%s, not\n%s", out, want)
	}
}

// A mutant lives also in a process that a test starts with an empty environment.
func TestChild(t *testing.T) {
	dir := module(t, map[string]string{
		"program.go": "package program\n\nfunc Answer() bool {\n\treturn true\n}\n",
		"program_test.go": `package program

import (
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "child" {
		if !Answer() {
			os.Exit(1)
		}
		os.Exit(0)
	}
	m.Run()
}

func TestAnswer(t *testing.T) {
	child := exec.Command("/proc/self/exe")
	child.Args, child.Env = []string{"child"}, []string{}
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
}
`})
	if out := mutate(t, "-C", dir, "-n", "1000", "."); !strings.Contains(out, "program: 2 of 2 caught, 2 reached\n") {
		t.Error(out)
	}
}
