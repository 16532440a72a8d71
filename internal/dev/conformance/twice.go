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
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// twice are packages of the counterpart that are run two times: as they are, and with Dray in
// the place of what they test. The adapter reads from the environment which run it is.
type twice struct {
	// packages are folders of the counterpart's module, with what is below them.
	packages []string
	// tested are the packages that are run, as patterns of the go command.
	tested []string
	// imports have, for packages of the counterpart, the folder of the part that is imported
	// instead.
	imports map[string]string
	// LeftOut are files, below the counterpart's module, and tests, with why.
	LeftOut map[string]string
	// edits are made in files that are tests of what is not exported.
	edits map[string][]edit
	// flags are those of the test binaries, by which they also choose tests.
	flags []string
}

// edit replaces a text that a file has once.
type edit struct{ from, to string }

// withDray is what the environment has in the run with Dray.
const withDray = "CONFORMANCE_WITH_DRAY=1"

// runTwice copies the packages to a folder that has the adapter, and runs them, one after the
// other: their tests mostly wait, but each has an API server.
func runTwice(ctx context.Context, part Part, folder string, options Options) ([]Outcome, error) {
	if err := part.twice.layOut(ctx, part, folder); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		return nil, fmt.Errorf("etcd is needed, which make etcd builds in bin: %w", err)
	}
	modules, err := command(ctx, folder, "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	environment := []string{
		// So Kubernetes finds the files of its test API server if paths are trimmed.
		"TEST_SRCDIR=" + filepath.Dir(modules), "TEST_WORKSPACE=" + filepath.Base(modules),
	}
	packages, err := part.twice.testedPackages(ctx, folder)
	if err != nil {
		return nil, err
	}
	var outcomes []Outcome
	for _, tested := range packages {
		both, err := part.twice.runPackage(ctx, tested, folder, environment, options.Progress)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, both...)
	}
	if len(outcomes) == 0 {
		return nil, fmt.Errorf("no test ran in %s", folder)
	}
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Test, b.Test) })
	return outcomes, nil
}

// runPackage builds the tests of a package and runs them as they are and with Dray, at the same
// time, so that what else the machine does slows both.
func (t *twice) runPackage(ctx context.Context, tested testedPackage, folder string, environment []string, progress io.Writer) ([]Outcome, error) {
	fmt.Fprintf(progress, "%s: building\n", tested.Name)
	binary := filepath.Join(folder, "conformance.test")
	arguments := []string{"test", "-mod=mod", "-trimpath", "-vet=off", "-c", "-o", binary, tested.ImportPath}
	if _, err := command(ctx, folder, "go", arguments...); err != nil {
		return nil, fmt.Errorf("%s: %w", tested.Name, err)
	}
	run := func(what string, environment []string) func() ([]packageEvent, error) {
		return func() ([]packageEvent, error) {
			return runBinary(ctx, tested, binary, t.flags, environment, &reporter{to: progress, what: tested.Name + ", " + what})
		}
	}
	var asItIs, swapped []packageEvent
	var both errgroup.Group
	both.Go(func() (err error) {
		asItIs, err = run("as it is", environment)()
		return err
	})
	both.Go(func() (err error) {
		swapped, err = run("with Dray", slices.Concat(environment, []string{withDray}))()
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	return compareRuns(t.outcomes(tested, asItIs), t.outcomes(tested, swapped)), nil
}

func (t *twice) outcomes(of testedPackage, events []packageEvent) []Outcome {
	return withoutGroups(tested(of.module, events))
}

func (t *twice) layOut(ctx context.Context, part Part, folder string) error {
	counterpart, err := command(ctx, folder, "go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", part.Counterpart)
	if err != nil {
		return err
	}
	module := path.Join(part.Counterpart, part.below)
	imports := make(map[string]string, len(t.imports))
	for from, to := range t.imports {
		imports[path.Join(part.Counterpart, from)] = path.Join(module, to)
	}
	missing := maps.Clone(t.LeftOut)
	for _, name := range t.packages {
		to := filepath.Join(folder, path.Base(name))
		if err := t.copy(os.DirFS(counterpart), name, to, missing); err != nil {
			return err
		}
		if len(t.imports) == 0 {
			continue // tests in the package
		}
		imports[path.Join(part.Counterpart, name)] = path.Join(module, path.Base(name))
		if err := changeImports(to, imports); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: there is no %s", part.Counterpart, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return nil
}

// copy copies what is below a folder of the counterpart, and takes what it leaves out from
// missing.
func (t *twice) copy(counterpart fs.FS, name, to string, missing map[string]string) error {
	return fs.WalkDir(counterpart, name, func(file string, entry fs.DirEntry, err error) error {
		below := strings.TrimPrefix(strings.TrimPrefix(file, name), "/")
		switch {
		case err != nil:
			return err
		case t.LeftOut[file] != "":
			delete(missing, file)
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		content, err := fs.ReadFile(counterpart, file)
		if err != nil {
			return err
		}
		content, err = t.change(file, content, missing)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return os.WriteFile(filepath.Join(to, below), content, 0o644)
	})
}

// change makes the edits of a file and leaves out tests.
func (t *twice) change(file string, content []byte, missing map[string]string) ([]byte, error) {
	content, err := edited(content, t.edits[file])
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(file, "_test.go") {
		return content, nil
	}
	content, had, err := without(content, t.LeftOut)
	for _, test := range had {
		delete(missing, test)
	}
	return content, err
}

// edited returns a text after edits.
func edited(content []byte, edits []edit) ([]byte, error) {
	for _, e := range edits {
		if n := bytes.Count(content, []byte(e.from)); n != 1 {
			return nil, fmt.Errorf("%q is there %d times, want 1", e.from, n)
		}
		content = bytes.Replace(content, []byte(e.from), []byte(e.to), 1)
	}
	return content, nil
}

// testedPackage is a package with tests.
type testedPackage struct {
	Name       string // below the module
	ImportPath string
	Dir        string
	module     string
}

// testedPackages lists the packages with tests.
func (t *twice) testedPackages(ctx context.Context, folder string) ([]testedPackage, error) {
	module, err := command(ctx, folder, "go", "list", "-mod=mod", "-m")
	if err != nil {
		return nil, err
	}
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"
	listed, err := command(ctx, folder, "go", append([]string{"list", "-mod=mod", "-f", format}, t.tested...)...)
	if err != nil {
		return nil, err
	}
	var packages []testedPackage
	for line := range strings.Lines(listed) {
		importPath, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			packages = append(packages, testedPackage{Name: below(module, importPath), ImportPath: importPath, Dir: dir, module: module})
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no package of %s has tests", strings.Join(t.tested, " "))
	}
	return packages, nil
}

// runBinary runs a test binary in the folder of its package. Failed tests are no error.
func runBinary(ctx context.Context, tested testedPackage, binary string, flags, environment []string, progress *reporter) ([]packageEvent, error) {
	arguments := []string{"tool", "test2json", "-t", "-p", tested.ImportPath, binary, "-test.v=test2json", "-test.timeout=1h"}
	run := exec.CommandContext(ctx, "go", append(arguments, flags...)...)
	run.Dir = tested.Dir
	run.Env = append(run.Environ(), environment...)
	// The binary is a child of the child, and starts an etcd: they end together.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	stdout, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	run.Stderr = &stderr
	if err := run.Start(); err != nil {
		return nil, err
	}
	var events []packageEvent
	lines := json.NewDecoder(stdout)
	var readErr error
	for {
		var e packageEvent
		if readErr = lines.Decode(&e); readErr != nil {
			break
		}
		progress.report(e)
		events = append(events, e)
	}
	runErr := run.Wait()
	switch {
	case ctx.Err() != nil: // what was printed until then says nothing
		return nil, ctx.Err()
	case !errors.Is(readErr, io.EOF):
		return nil, fmt.Errorf("%s: %w: %s", tested.Name, readErr, stderr.String())
	case runErr != nil && len(events) == 0:
		return nil, fmt.Errorf("%s: %w: %s", tested.Name, runErr, stderr.String())
	}
	return events, nil
}

// withoutGroups leaves out those that failed since a test below them did.
func withoutGroups(outcomes []Outcome) []Outcome {
	groups := make(map[string]bool)
	for _, outcome := range outcomes {
		for name := outcome.Test; outcome.Status == Failed && strings.Contains(name, "/"); {
			name = name[:strings.LastIndex(name, "/")]
			groups[name] = true
		}
	}
	var leaves []Outcome
	for _, outcome := range outcomes {
		if !groups[outcome.Test] {
			leaves = append(leaves, outcome)
		}
	}
	return leaves
}
