package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
	// flags are those of the test binaries.
	flags []string
}

// edit replaces a text that a file has once.
type edit struct{ from, to string }

// withDray is what the environment has in the run with Dray.
const withDray = "CONFORMANCE_WITH_DRAY=1"

// runTwice copies the packages to a folder that has the adapter, and runs them.
func runTwice(ctx context.Context, part Part, folder string) ([]Outcome, error) {
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
	// At the same time, so that what else the machine does slows both.
	var asItIs, swapped []Outcome
	var both errgroup.Group
	both.Go(func() (err error) {
		asItIs, err = part.twice.test(ctx, folder, environment)
		return err
	})
	both.Go(func() (err error) {
		swapped, err = part.twice.test(ctx, folder, slices.Concat(environment, []string{withDray}))
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	return compareRuns(asItIs, swapped), nil
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
	for _, e := range t.edits[file] {
		if n := bytes.Count(content, []byte(e.from)); n != 1 {
			return nil, fmt.Errorf("%q is there %d times, want 1", e.from, n)
		}
		content = bytes.Replace(content, []byte(e.from), []byte(e.to), 1)
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

func (t *twice) test(ctx context.Context, folder string, environment []string) ([]Outcome, error) {
	module, err := command(ctx, folder, "go", "list", "-mod=mod", "-m")
	if err != nil {
		return nil, err
	}
	// The tests mostly wait, so that four packages run at a time.
	arguments := []string{"test", "-mod=mod", "-trimpath", "-vet=off", "-count=1", "-p=4", "-timeout=1h", "-json"}
	arguments = append(append(arguments, t.tested...), t.flags...)
	events, err := goJSON(ctx, folder, arguments, environment)
	if err != nil {
		return nil, err
	}
	if failed := notBuilt(module, events); len(failed) > 0 {
		return nil, fmt.Errorf("%s: %w: %s", failed[0].Test, errNotCompiled, failed[0].Output)
	}
	outcomes := withoutGroups(tested(module, events))
	if len(outcomes) == 0 {
		return nil, fmt.Errorf("no test ran in %s", folder)
	}
	return outcomes, nil
}

var errNotCompiled = errors.New("does not compile")

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

// integrationEdits have the integration tests expect what Dray says where they compare texts.
var integrationEdits = map[string][]edit{
	"test/integration/dra/compatibility_groups.go": {
		{
			`expectPodUnschedulable(tCtx, createdPod, "cannot allocate all claims")`,
			`expectPodUnschedulable(tCtx, createdPod, words(tCtx, "cannot allocate all claims", "not that many can be had together"))`,
		},
		{
			`expectPodUnschedulable(tCtx, createdPod2, "cannot allocate all claims")`,
			`expectPodUnschedulable(tCtx, createdPod2, words(tCtx, "cannot allocate all claims", "not that many can be had together"))`,
		},
	},
	"test/integration/dra/core.go": {
		{
			`gomega.Equal("0/8 nodes are available: 1 invalid resource pools were encountered, 7 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.")`,
			`message("0/8 nodes are available: 1 invalid resource pools were encountered, 7 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.", "it has invalid pools")`,
		},
		{
			`gomega.Equal("0/8 nodes are available: 8 invalid resource pools were encountered. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.")`,
			`message("0/8 nodes are available: 8 invalid resource pools were encountered. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.", "it has invalid pools")`,
		},
		{
			`for _, slice := range tc.slices {`,
			`if !tc.expectPodToSchedule {
				words(tCtx, "invalid resource pools were encountered", "it has invalid pools")
			}
			for _, slice := range tc.slices {`,
		},
	},
	"test/integration/dra/device_taints.go": {
		{`"cannot allocate all claims"`, `words(tCtx, "cannot allocate all claims", "tainted")`},
	},
	"test/integration/dra/prioritizedlist.go": {
		{
			`gomega.Equal("0/8 nodes are available: 8 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.")`,
			`message("0/8 nodes are available: 8 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.",
				words(tCtx, "cannot allocate all claims", "request req-1/subreq-1 wants 1 device: "))`,
		},
	},
}
