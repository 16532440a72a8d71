// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutate changes packages in small ways and says which changes no test sees.
//
// A sample of mutants is drawn by a seed: a comparison turned round, a condition left out, + for -,
// another number, a statement left out, another result, an early return. All of them are compiled
// into the test programs at once, as an overlay, so that the checkout is not touched. A file says
// which of them lives, so that it does so in all processes that a test starts. The tests are run
// once, one at a time, to see which mutants each comes by. Then each mutant meets those tests, the
// quick ones first, until one fails.
//
// A mutant is caught if a test fails, panics, or takes five times as long as without it and ten
// seconds more. It has to do so twice, and to pass without the mutant in between. So neither a busy
// machine nor a test that fails at times catches anything. Mutants that are not caught are printed
// as differences, and the share that is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runner has what a run was asked to do, and the tests that it found.
type runner struct {
	dir     string
	scratch string
	tests   []string
	slow    time.Duration
	budget  time.Duration
	memory  int // MiB
	log     io.Writer
	found   []test
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "mutate:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(log)
	r := &runner{log: log}
	flags.StringVar(&r.dir, "C", ".", "folder of the module")
	count := flags.Int("n", 50, "number of mutants")
	seed := flags.Uint64("seed", 1, "seed of the sample")
	tests := flags.String("tests", "", "packages whose tests are run, separated by spaces; empty: those that are changed")
	only := flags.String("only", "", "numbers of mutants of the sample, separated by commas; empty: all")
	again := flags.String("again", "", "file with what an earlier run printed: the sample is what that names, wherever it stands now")
	flags.DurationVar(&r.slow, "slow", time.Minute, "do not use tests that take longer")
	flags.DurationVar(&r.budget, "budget", time.Minute, "run tests for so long on each mutant, by the time they take without it")
	flags.IntVar(&r.memory, "memory", 12_000, "largest size of a test program in memory, in MiB, counting what it reserves")
	listing := flags.Bool("list", false, "print the sample, and run nothing")
	flags.Usage = func() {
		fmt.Fprint(log, "usage: mutate [flags] packages\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.memory < 1 {
		return fmt.Errorf("-memory: %d: at least 1 is required", r.memory)
	}
	if r.tests = strings.Fields(*tests); len(r.tests) == 0 {
		r.tests = flags.Args()
	}
	mutants, err := r.sample(ctx, flags.Args(), *seed, *count, *again)
	if err != nil {
		return err
	}
	ids, err := numbers(*only, len(mutants))
	if err != nil {
		return err
	}
	if *listing {
		for _, id := range ids {
			fmt.Fprint(out, r.describe(mutants[id-1], id, "in the sample"))
		}
		return nil
	}
	if r.scratch, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.scratch) }()
	if err := os.Chmod(r.scratch, 0o755); err != nil { // Tests may be run by other users.
		return err
	}
	path, err := overlay(r.scratch, mutants)
	if err != nil {
		return err
	}
	if err := r.build(ctx, path); err != nil {
		return err
	}
	return r.report(ctx, out, mutants, ids)
}

// numbers reads the numbers of mutants, which count from 1.
func numbers(only string, count int) ([]int, error) {
	var ids []int
	if only == "" {
		for id := range count {
			ids = append(ids, id+1)
		}
		return ids, nil
	}
	for field := range strings.SplitSeq(only, ",") {
		id, err := strconv.Atoi(field)
		if err != nil || id < 1 || id > count {
			return nil, fmt.Errorf("-only: %q is no number of the %d mutants", field, count)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// sample finds the mutants that an earlier run printed, or draws some.
func (r *runner) sample(ctx context.Context, patterns []string, seed uint64, count int, again string) ([]mutant, error) {
	sources, err := load(ctx, r.dir, patterns)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for i := range sources {
		for _, f := range sources[i].files {
			all = append(all, find(&sources[i], f)...)
		}
	}
	if again == "" {
		return draw(all, seed, count), nil
	}
	printed, err := os.ReadFile(again)
	if err != nil {
		return nil, err
	}
	return r.named(all, string(printed)), nil
}

// draw samples count mutants. What does not compile is replaced by others.
func draw(all []mutant, seed uint64, count int) []mutant {
	random := rand.New(rand.NewPCG(seed, seed))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var drawn []mutant
	for _, m := range all {
		if len(drawn) == count {
			break
		}
		if compiles(m) {
			drawn = append(drawn, m)
		}
	}
	return drawn
}

// compiles reports whether a package with one mutant has no errors of types.
func compiles(m mutant) bool {
	var trees []*ast.File
	for _, f := range m.pkg.files {
		tree := f.tree
		if f.path == m.path {
			changed := string(f.text[:m.start]) + m.form(1, m.before) + string(f.text[m.end:]) + "\nfunc mutantIs(int) bool { return true }\n"
			var err error
			if tree, err = parser.ParseFile(m.pkg.fset, "mutant of "+f.path, changed, parser.SkipObjectResolution); err != nil {
				return false
			}
		}
		trees = append(trees, tree)
	}
	_, err := (&types.Config{Importer: known{m.pkg.types}}).Check(m.pkg.path, m.pkg.fset, trees, nil)
	return err == nil
}

// known finds the packages that another one imports.
type known struct{ of *types.Package }

func (k known) Import(path string) (*types.Package, error) {
	for _, p := range k.of.Imports() {
		if p.Path() == path {
			return p, nil
		}
	}
	return importer.Default().Import(path)
}

// report judges the mutants, prints those that are not caught as soon as they are known, and then the shares.
func (r *runner) report(ctx context.Context, out io.Writer, mutants []mutant, ids []int) error {
	type share struct{ all, caught, reached int }
	shares := make(map[string]*share)
	for _, id := range ids {
		v, err := r.judge(ctx, id)
		if err != nil {
			return err
		}
		name := mutants[id-1].pkg.path
		s := shares[name]
		if s == nil {
			s = new(share)
			shares[name] = s
		}
		s.all++
		if v.reached {
			s.reached++
		}
		if v.caught {
			s.caught++
		}
		switch {
		case v.caught:
			fmt.Fprintf(r.log, "%d: caught: %s\n", id, v.by)
		case !v.reached:
			fmt.Fprint(out, r.describe(mutants[id-1], id, "no test comes by"))
		case v.left > 0:
			fmt.Fprint(out, r.describe(mutants[id-1], id, fmt.Sprintf("not caught; tests of %s were not run", v.left.Round(time.Second))))
		default:
			fmt.Fprint(out, r.describe(mutants[id-1], id, "not caught"))
		}
	}
	var all, caught int
	names := make([]string, 0, len(shares))
	for name, s := range shares {
		names = append(names, name)
		all, caught = all+s.all, caught+s.caught
	}
	slices.Sort(names)
	for _, name := range names {
		s := shares[name]
		fmt.Fprintf(out, "%s: %d of %d caught, %d reached\n", name, s.caught, s.all, s.reached)
	}
	fmt.Fprintf(out, "%d of %d mutants caught (%.1f %%)\n", caught, all, 100*float64(caught)/float64(max(all, 1)))
	return nil
}
