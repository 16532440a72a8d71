// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cmd runs the tests of Dray's counterparts on Dray, prints a table, and fails if a
// test differs for which there is no decision. Arguments are names of parts; without, all run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
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
	programs := flag.String("programs", "", "the folder with checkouts of the programs of others, for the parts that need them")
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
		fmt.Fprintln(flag.CommandLine.Output(), "\nParts that build a program of others, of which a checkout is in the folder that -programs names:")
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
		parts = available(*programs)
	}
	root, err := filepath.Abs(*checkout)
	if err != nil {
		return err
	}
	if *older != "" {
		return conformance.LayOutOlder(ctx, root, *older)
	}
	var verdicts []*conformance.Verdict
	for _, part := range parts {
		fmt.Fprintf(os.Stderr, "%s: %s\n", part.Name, part.About)
		result, err := conformance.Run(ctx, part, conformance.Options{Checkout: root, Programs: *programs, Progress: os.Stderr})
		if err != nil {
			return err
		}
		verdict, err := conformance.Judge(result)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, verdict)
	}
	fmt.Print(conformance.Table(verdicts))
	if err := complain(verdicts); err != nil || *page == "" {
		return err
	}
	stored, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	text := conformance.Page(string(stored), verdicts)
	if !*check {
		return os.WriteFile(*page, []byte(text), 0o644)
	}
	if string(stored) != text {
		return fmt.Errorf("%s is not what this run gives: make conformance writes it anew", *page)
	}
	return nil
}

// available are all parts but those that lack a checkout, of which it says what they need.
func available(programs string) []conformance.Part {
	var parts []conformance.Part
	for _, part := range conformance.All() {
		if err := part.Lacks(programs); err != nil {
			fmt.Fprintf(os.Stderr, "%s: left out: %v\n", part.Name, err)
			continue
		}
		parts = append(parts, part)
	}
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
