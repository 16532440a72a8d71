// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cmd runs the tests of Dray's counterparts on Dray, prints a table, and fails if a
// test differs for which there is no decision. Arguments are names of parts; without, all run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dray-project/dray/internal/dev/conformance"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	checkout := flag.String("checkout", ".", "the root of Dray's sources")
	page := flag.String("page", "", "the file to write the page to, which keeps what it says of parts that do not run")
	all := flag.Bool("all", false, "run the slow parts, too, and those that have a checkout")
	programs := make(conformance.Checkouts)
	flag.Var(programs, "programs", "the `folder` with checkouts of the programs of others, or NAME=FOLDER for one; can be given several times")
	older := flag.String("older", "", "the folder to lay out in what drivers import, for the libraries of Kubernetes 1.36; nothing is run")
	check := flag.Bool("check", false, "compare the page with what the file has, and do not write it")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: %s [flags] [part ...]\n\nParts:\n", filepath.Base(os.Args[0]))
		for _, part := range conformance.Parts {
			slow := ""
			if part.Slow {
				slow = " (slow: runs if it is named, or with -all)"
			}
			fmt.Fprintf(flag.CommandLine.Output(), "  %-29s %s%s\n", part.Name, part.About, slow)
		}
		fmt.Fprintln(flag.CommandLine.Output(), "\nParts that build a program of others:")
		for _, part := range conformance.Programs() {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-45s %s\n", part.Name, part.Program.Needs())
		}
		fmt.Fprintln(flag.CommandLine.Output(), "\nFlags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	parts, err := conformance.Select(flag.Args())
	if err != nil {
		return err
	}
	if *all {
		parts = available(programs)
	}
	root, err := filepath.Abs(*checkout)
	if err != nil {
		return err
	}
	if *older != "" {
		return conformance.LayOutOlder(ctx, root, *older)
	}
	verdicts, failed := runParts(ctx, parts, conformance.Options{Checkout: root, Programs: programs, Progress: os.Stderr})
	fmt.Print(conformance.Table(verdicts))
	failed = append(failed, complain(verdicts))
	if *page == "" {
		return errors.Join(failed...)
	}
	return errors.Join(append(failed, write(*page, verdicts, *check))...)
}

// runParts runs one part after the other. One that cannot be run does not keep the others from it.
func runParts(ctx context.Context, parts []conformance.Part, options conformance.Options) (verdicts []*conformance.Verdict, failed []error) {
	for _, part := range parts {
		fmt.Fprintf(os.Stderr, "%s: %s\n", part.Name, part.About)
		verdict, err := judged(ctx, part, options)
		if err != nil {
			failed = append(failed, err)
		} else {
			verdicts = append(verdicts, verdict)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return verdicts, failed
}

func judged(ctx context.Context, part conformance.Part, options conformance.Options) (*conformance.Verdict, error) {
	result, err := conformance.Run(ctx, part, options)
	if err != nil {
		return nil, err
	}
	return conformance.Judge(result)
}

// write writes the page, or compares it with what the file has. The page keeps what it says of parts with differences
// that nothing explains.
func write(page string, verdicts []*conformance.Verdict, check bool) error {
	stored, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	explained := slices.DeleteFunc(slices.Clone(verdicts), func(v *conformance.Verdict) bool { return !v.OK() })
	text := conformance.Page(string(stored), explained)
	if !check {
		return os.WriteFile(page, []byte(text), 0o644)
	}
	if string(stored) != text {
		return fmt.Errorf("%s is not what this run gives: make conformance writes it anew", page)
	}
	return nil
}

// available are all parts but those that lack a checkout, of which it says what they need.
func available(programs conformance.Checkouts) []conformance.Part {
	var parts []conformance.Part
	for _, part := range conformance.All() {
		if err := part.Lacks(programs); err != nil {
			fmt.Fprintf(os.Stderr, "%s: left out: %v\n", part.Name, err)
			continue
		}
		parts = append(parts, part)
	}
	fmt.Fprintln(os.Stderr, conformance.WithoutPart)
	return parts
}

// complain prints what is new or stale.
func complain(verdicts []*conformance.Verdict) error {
	ok := true
	for _, verdict := range verdicts {
		ok = ok && verdict.OK()
		for _, outcome := range verdict.Without {
			fmt.Printf("%s: fails without Dray, too: %s: %s\n", verdict.Result.Part.Name, outcome.Test, firstLines(outcome.Output))
		}
		for _, outcome := range verdict.New {
			fmt.Printf("\n%s: new difference: %s\n%s", verdict.Result.Part.Name, outcome.Test, outcome.Output)
		}
		for _, k := range verdict.Stale {
			fmt.Printf("\n%s: known.yaml lists %s, which does not differ\n", verdict.Result.Part.Name, k.Test)
		}
	}
	if !ok {
		return fmt.Errorf("there are differences without a decision")
	}
	return nil
}

// firstLines is enough of what a test printed to know why it failed.
func firstLines(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "=== ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[:min(len(lines), 2)], " | ")
}
