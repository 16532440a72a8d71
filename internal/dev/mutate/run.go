// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dray-project/dray/internal/dev/typed"
)

// test is a test of a program, or all of its tests if they are quick.
type test struct {
	binary, dir string
	names       []string
	took        time.Duration
	reaches     map[int]bool
}

// quick is how long all tests of a package may take to be run as one.
const quick = 2 * time.Second

// build makes the test programs of packages with all mutants in them.
func (r *runner) build(ctx context.Context, overlay string) error {
	packages, err := typed.List(ctx, r.dir, append([]string{"--"}, r.tests...)...)
	if err != nil {
		return err
	}
	for i, p := range packages {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		binary := filepath.Join(r.scratch, fmt.Sprintf("%d_%s.test", i, p.Name))
		cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-overlay", overlay, "-c", "-o", binary, p.ImportPath)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "GOTMPDIR="+r.scratch)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build tests of %s: %w: %s", p.ImportPath, err, out)
		}
		if err := r.reach(ctx, binary, p); err != nil {
			return err
		}
	}
	return nil
}

var testName = regexp.MustCompile(`^(Test|Example|Fuzz)`)

// reach runs the tests of a package where no mutant lives, and notes which mutants each comes by.
func (r *runner) reach(ctx context.Context, binary string, p typed.Listed) error {
	cmd := exec.CommandContext(ctx, binary, "-test.list", ".")
	cmd.Dir = p.Dir
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintf(r.log, "%s: its tests are not used, as they cannot be listed: %v: %s\n", p.ImportPath, err, last(told.String()+string(out), 300))
		return ctx.Err()
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(s string) bool { return !testName.MatchString(s) })
	if len(names) == 0 {
		return nil
	}
	if all, err := r.first(ctx, test{binary: binary, dir: p.Dir, names: names}, quick); err == nil {
		r.found = append(r.found, all)
		return nil
	}
	for _, name := range names {
		one, err := r.first(ctx, test{binary: binary, dir: p.Dir, names: []string{name}}, r.slow)
		if err != nil {
			fmt.Fprintf(r.log, "%s: %s is not used: %v\n", p.ImportPath, name, err)
			continue
		}
		r.found = append(r.found, one)
	}
	return ctx.Err()
}

func (r *runner) first(ctx context.Context, t test, limit time.Duration) (test, error) {
	reached := filepath.Join(r.scratch, reachedFile)
	if err := writeFor(reached, ""); err != nil {
		return t, err
	}
	defer func() { _ = os.Remove(reached) }()
	start := time.Now()
	if out, err := r.run(ctx, []test{t}, limit, 0); err != nil {
		return t, fmt.Errorf("%w: %s", err, last(out, 300))
	}
	t.took = time.Since(start)
	t.reaches = make(map[int]bool)
	text, err := os.ReadFile(reached)
	if err != nil {
		return t, err
	}
	for _, id := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return t, err
		}
		t.reaches[n] = true
	}
	return t, nil
}

// writeFor writes a file that processes of all users may write.
func writeFor(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o666)
}

// run runs tests of one program where the mutant with a number lives; 0 is none. What mutants start and what they take
// of memory is bounded.
func (r *runner) run(ctx context.Context, tests []test, limit time.Duration, lives int) (string, error) {
	if err := writeFor(filepath.Join(r.scratch, livesFile), strconv.Itoa(lives)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var names []string
	for _, t := range tests {
		names = append(names, t.names...)
	}
	args := []string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$@"`, r.memory<<10), "sh", tests[0].binary, "-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = tests[0].dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	clean := failFiles(cmd.Dir)
	err := cmd.Run()
	clean()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done in %s", limit.Round(time.Second))
	}
	return out.String(), err
}

// failFiles notes which folder of failed cases a package has. What it returns removes one that has come since: rapid
// writes there what a mutant fails on.
func failFiles(dir string) (clean func()) {
	path := filepath.Join(dir, "testdata", "rapid")
	if _, err := os.Stat(path); err == nil {
		return func() {}
	}
	return func() {
		_ = os.RemoveAll(path)
		_ = os.Remove(filepath.Dir(path)) // if nothing else is there
	}
}

// verdict is what became of a mutant.
type verdict struct {
	id      int
	caught  bool
	reached bool
	by      string
	// left is how long the tests take that were not run, as the budget was spent.
	left time.Duration
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// judge runs the tests that come by a mutant, the quick ones first.
func (r *runner) judge(ctx context.Context, id int) (verdict, error) {
	v := verdict{id: id}
	var tests []test
	for _, t := range r.found {
		if t.reaches[id] {
			tests = append(tests, t)
		}
	}
	v.reached = len(tests) > 0
	slices.SortStableFunc(tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	var spent time.Duration
	for len(tests) > 0 {
		batch, rest, took := split(tests, max(quick/2, spent))
		if spent += took; spent > r.budget && spent > took {
			for _, t := range tests {
				v.left += t.took
			}
			return v, nil
		}
		by, err := r.catch(ctx, batch, took, id)
		if err != nil {
			return v, err
		}
		if by != "" {
			v.caught, v.by = true, by
			return v, nil
		}
		tests = rest
	}
	return v, nil
}

// allowance is how long tests may take with a mutant that take so long without it.
func allowance(took time.Duration) time.Duration { return 5*took + 10*time.Second }

// catch says which of some tests sees a mutant; none is "". Tests that fail are run again without the mutant, and then
// with it. The first of these has to pass and the second to fail, in the time that the first one took.
func (r *runner) catch(ctx context.Context, tests []test, took time.Duration, id int) (by string, err error) {
	if _, err := r.run(ctx, tests, allowance(took), id); err == nil || ctx.Err() != nil {
		return "", ctx.Err()
	}
	start := time.Now()
	if out, err := r.run(ctx, tests, 10*allowance(took), 0); err != nil {
		if ctx.Err() == nil {
			fmt.Fprintf(r.log, "%d: tests fail by themselves: %v: %s\n", id, err, last(out, 300))
		}
		return "", ctx.Err()
	}
	out, failure := r.run(ctx, tests, allowance(max(took, time.Since(start))), id)
	switch names := failed.FindAllStringSubmatch(out, -1); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case failure == nil:
		fmt.Fprintf(r.log, "%d: %s failed once, and passed then\n", id, strings.Join(tests[0].names, ", "))
		return "", nil
	case names != nil:
		return names[len(names)-1][1], nil
	}
	return failure.Error(), nil
}

// split takes tests of the first one's program, as long as they take no longer than limit together.
func split(tests []test, limit time.Duration) (batch, rest []test, took time.Duration) {
	for i, t := range tests {
		if i > 0 && (t.binary != tests[0].binary || took+t.took > limit) {
			rest = append(rest, t)
			continue
		}
		batch, took = append(batch, t), took+t.took
	}
	return batch, rest, took
}

func last(s string, n int) string {
	return s[max(0, len(s)-n):]
}
