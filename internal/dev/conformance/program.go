// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Program is a program of others that is built and tested with its imports changed.
//
// It runs twice with the same libraries: as it is, and with Dray's packages. Requiring Dray
// raises the program's Kubernetes libraries to Dray's, but for older ones. What fails because of
// that fails in the first run, too, and is no difference.
type Program struct {
	// Repository is where it is published, Commit what the list of known differences is about.
	Repository, Commit string
	// Version is set instead of Commit if the module proxy has the program: no checkout is needed.
	Version string
	// Packages are the patterns that are built and tested. Those that need a cluster are left
	// out.
	Packages []string
	// Imports are the packages whose place Dray's take.
	Imports map[string]string
	// edits are made in both runs, by file, and patch is what has to change beside imports for Dray.
	edits, patch map[string][]edit
	// older is set if the program keeps its libraries, which are those of Kubernetes 1.36.
	older bool
	// Forwarded are packages of the program whose own tests run on Dray's.
	Forwarded []forwarded
	// onPlane runs more of the program on a control plane of its own.
	onPlane func(ctx context.Context, laidOut copied) ([]packageEvent, error)
}

// runProgram runs a program as it is and with Dray's packages. Of programs that the module proxy
// does not have, checkouts says where they are.
func runProgram(ctx context.Context, part Part, folder string, options Options) (*Result, error) {
	if err := part.Lacks(options.Programs); err != nil {
		return nil, err
	}
	find := checkedOut
	if part.Program.Version != "" {
		find = downloaded
	}
	source, version, err := find(ctx, part, options.Programs)
	if err != nil {
		return nil, err
	}
	result := &Result{Part: part, Version: version}
	asItIs, err := runCopy(ctx, part, source, filepath.Join(folder, "as-it-is"), false, options)
	if err != nil {
		return nil, err
	}
	swapped, err := runCopy(ctx, part, source, filepath.Join(folder, "swapped"), true, options)
	if err != nil {
		return nil, err
	}
	result.Outcomes = compareRuns(asItIs, swapped)
	return result, nil
}

// downloaded returns the folder in which the go command keeps a version of a module.
func downloaded(ctx context.Context, part Part, _ Checkouts) (source, version string, err error) {
	// Outside of any module, so that no go.sum is asked.
	text, err := command(ctx, os.TempDir(), "go", "mod", "download", "-json", part.Counterpart+"@"+part.Program.Version)
	if err != nil {
		return "", "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &module); err != nil {
		return "", "", err
	}
	return module.Dir, part.Program.Version, nil
}

// checkedOut returns the checkout of a program, which must have no changes.
func checkedOut(ctx context.Context, part Part, checkouts Checkouts) (source, version string, err error) {
	source = checkouts.of(part)
	commit, err := command(ctx, source, "git", "rev-parse", "HEAD")
	if err != nil {
		return "", "", err
	}
	changed, err := command(ctx, source, "git", "status", "--porcelain", "--untracked-files=no", "--", "*.go", "go.mod")
	if err != nil {
		return "", "", err
	}
	if changed != "" {
		return "", "", fmt.Errorf("%s has changes of its own:\n%s", source, changed)
	}
	version = commit[:min(12, len(commit))]
	if commit != part.Program.Commit {
		version += ", not the pinned " + part.Program.Commit[:12]
	}
	return source, version, nil
}

// compareRuns returns the outcomes of the second run. One that is what it was in the first
// says so, if it failed. A test that passed in the first run and is missing in the second
// failed. What failed in the first and is missing in the second is a package that compiles with
// Dray's packages only: its tests are there instead.
func compareRuns(asItIs, swapped []Outcome) []Outcome {
	before := make(map[string]Outcome, len(asItIs))
	for _, outcome := range asItIs {
		before[outcome.Test] = outcome
	}
	var outcomes []Outcome
	for _, outcome := range swapped {
		if was, has := before[outcome.Test]; has && was.Status == Failed && outcome.Status == Failed {
			outcome.Status = FailedWithout
		}
		delete(before, outcome.Test)
		outcomes = append(outcomes, outcome)
	}
	for _, missing := range before {
		if missing.Status != Failed {
			outcomes = append(outcomes, Outcome{Test: missing.Test, Status: Failed, Output: "does not run with Dray's packages\n"})
		}
	}
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Test, b.Test) })
	return outcomes
}

// runCopy copies a program, requires the libraries of Dray, changes its imports if it is to be
// swapped, and runs its tests.
func runCopy(ctx context.Context, part Part, source, folder string, swap bool, options Options) ([]Outcome, error) {
	program := part.Program
	if err := copySources(source, folder); err != nil {
		return nil, err
	}
	if err := editFiles(folder, program.edits); err != nil {
		return nil, err
	}
	edits, err := requireDray(ctx, part, options.Checkout, folder, swap)
	if err != nil {
		return nil, err
	}
	if len(edits) > 0 {
		if _, err := command(ctx, folder, "go", append([]string{"mod", "edit"}, edits...)...); err != nil {
			return nil, err
		}
	}
	if swap {
		if err := editFiles(folder, program.patch); err != nil {
			return nil, err
		}
		if err := changeImports(folder, program.Imports); err != nil {
			return nil, err
		}
	}
	for _, f := range program.Forwarded {
		if err := f.layOut(folder, swap); err != nil {
			return nil, err
		}
	}
	outcomes, err := testPackages(ctx, folder, program.Packages)
	if err != nil {
		return nil, err
	}
	if program.onPlane != nil {
		module, err := command(ctx, folder, "go", "list", "-mod=mod", "-m")
		if err != nil {
			return nil, err
		}
		events, err := program.onPlane(ctx, copied{folder: folder, module: module, swapped: swap, Options: options})
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, tested(module, events)...)
	}
	if len(outcomes) == 0 {
		return nil, fmt.Errorf("nothing was tested in %s", folder)
	}
	return outcomes, nil
}

// copied is a program that was laid out.
type copied struct {
	folder, module string
	// swapped is set if the program has Dray's packages.
	swapped bool
	Options
}

// build builds a package of the program, and returns where the result is.
func (c *copied) build(ctx context.Context, pkg string) (program string, err error) {
	program = filepath.Join(c.folder, filepath.Base(pkg)+".program")
	_, err = command(ctx, c.folder, "go", "build", "-mod=mod", "-o", program, pkg)
	return program, err
}

// bin is the folder of the programs of a control plane.
func (c *copied) bin() string { return filepath.Join(c.Checkout, "bin") }

// Needs says in a few words what the program is read from.
func (p *Program) Needs() string {
	if p.Version != "" {
		return p.Version + ", which the module proxy has"
	}
	return "a checkout of " + p.Repository + ", commit " + p.Commit[:12]
}

// copySources copies all but what git and go mod vendor keep.
func copySources(source, folder string) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		switch {
		case relative == ".git" || relative == "vendor":
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(folder, relative), 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, filepath.Join(folder, relative))
		}
		return copyFile(path, filepath.Join(folder, relative))
	})
}

// editFiles makes edits in the files of a folder.
func editFiles(folder string, byFile map[string][]edit) error {
	for name, edits := range byFile {
		file := filepath.Join(folder, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text, err = edited(text, edits)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// changeImports fails if none of the packages is imported: nothing would be tested.
func changeImports(folder string, imports map[string]string) error {
	changes := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := string(text)
		for from, to := range imports {
			changes += strings.Count(changed, `"`+from+`"`)
			changed = strings.ReplaceAll(changed, `"`+from+`"`, `"`+to+`"`)
		}
		if changed == string(text) {
			return nil
		}
		return os.WriteFile(path, []byte(changed), 0o644)
	})
	if err == nil && changes == 0 {
		err = fmt.Errorf("%s: no import to change", folder)
	}
	return err
}

// command returns what a command prints, without the last line end.
func command(ctx context.Context, folder, name string, arguments ...string) (string, error) {
	run := exec.CommandContext(ctx, name, arguments...)
	run.Dir = folder
	var stderr strings.Builder
	run.Stderr = &stderr
	output, err := run.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimRight(string(output), "\n"), nil
}

// packageEvent is a line of go build -json or go test -json.
type packageEvent struct {
	event
	Package    string
	ImportPath string // of what was built
}

// testPackages builds and tests packages, of which some may not compile. Each package that
// does not is an outcome, and each test.
func testPackages(ctx context.Context, folder string, packages []string) ([]Outcome, error) {
	module, err := command(ctx, folder, "go", "list", "-mod=mod", "-m")
	if err != nil {
		return nil, err
	}
	withCgo := []string{"CGO_ENABLED=1"} // some drivers need it
	build, err := goJSON(ctx, folder, append([]string{"build", "-mod=mod", "-o", os.DevNull, "-json"}, packages...), withCgo)
	if err != nil {
		return nil, err
	}
	test, err := goJSON(ctx, folder, append([]string{"test", "-mod=mod", "-vet=off", "-count=1", "-json"}, packages...), withCgo)
	if err != nil {
		return nil, err
	}
	return append(notBuilt(module, build), tested(module, test)...), nil
}

// goJSON runs the go command, which may fail: then what it prints says why.
func goJSON(ctx context.Context, folder string, arguments, environment []string) ([]packageEvent, error) {
	run := exec.CommandContext(ctx, "go", arguments...)
	run.Dir = folder
	run.Env = append(run.Environ(), environment...)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err := run.Run()
	if ctx.Err() != nil { // what was printed until then says nothing
		return nil, ctx.Err()
	}
	var events []packageEvent
	lines := json.NewDecoder(&stdout)
	for {
		var e packageEvent
		decodeErr := lines.Decode(&e)
		if errors.Is(decodeErr, io.EOF) {
			break
		}
		if decodeErr != nil {
			return nil, fmt.Errorf("go %s: %w: %s", arguments[0], decodeErr, stderr.String())
		}
		events = append(events, e)
	}
	if err != nil && len(events) == 0 {
		return nil, fmt.Errorf("go %s: %w: %s", arguments[0], err, stderr.String())
	}
	return events, nil
}

// notBuilt has an outcome for each package that does not compile. The go command may say it of
// a package twice.
func notBuilt(module string, events []packageEvent) []Outcome {
	printed := make(map[string]string)
	failed := make(map[string]bool)
	for _, e := range events {
		switch e.Action {
		case "build-output":
			printed[e.ImportPath] += e.Output
		case "build-fail":
			failed[e.ImportPath] = true
		}
	}
	var outcomes []Outcome
	for pkg := range failed {
		outcomes = append(outcomes, Outcome{Test: "build " + below(module, pkg), Status: Failed, Output: printed[pkg]})
	}
	return outcomes
}

// tested has an outcome for each test, by package and name, and for each package that failed
// in another way.
func tested(module string, events []packageEvent) []Outcome {
	type key struct{ pkg, test string }
	printed := make(map[key]*strings.Builder) // some tests log very much
	ended := make(map[key]Status)
	for _, e := range events {
		k := key{below(module, e.Package), e.Test}
		if printed[k] == nil {
			printed[k] = new(strings.Builder)
		}
		switch status := Status(e.Action); status {
		case "output":
			printed[k].WriteString(e.Output)
		case Passed, Skipped, Failed:
			ended[k] = status
		}
	}
	groups := make(map[key]bool)
	failed := make(map[string]bool) // packages with a failed test
	for k := range printed {
		for test := k.test; strings.Contains(test, "/"); { // a name may have some of its own
			test = test[:strings.LastIndex(test, "/")]
			groups[key{k.pkg, test}] = true
		}
		if k.test != "" && ended[k] != Passed && ended[k] != Skipped {
			failed[k.pkg] = true
		}
	}
	var outcomes []Outcome
	for k, output := range printed {
		text := output.String()
		status, has := ended[k]
		if !has {
			status, text = Failed, text+"did not end\n"
		}
		switch {
		case k.pkg == "" || k.test != "" && groups[k] && status != Failed:
		case k.test != "":
			outcomes = append(outcomes, Outcome{Test: k.pkg + "." + k.test, Status: status, Output: text})
		case status == Failed && !failed[k.pkg]:
			outcomes = append(outcomes, Outcome{Test: "test " + k.pkg, Status: Failed, Output: text})
		}
	}
	return outcomes
}

// below is the part of a package's path that the module's path does not have.
func below(module, pkg string) string {
	pkg, _, _ = strings.Cut(pkg, " ") // "p [p.test]"
	return strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
}
