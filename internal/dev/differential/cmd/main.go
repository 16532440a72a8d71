// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command differential compares Dray with the allocator of kube-scheduler on generated
// clusters. Its last line sums up; the exit status is 1 if there is any disagreement.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/differential"
	"github.com/dray-project/dray/internal/dev/peer"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// Cases are small and short-lived: collecting them often takes a third of the time.
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	disagreements, err := compare(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		os.Exit(2)
	}
	if disagreements > 0 {
		os.Exit(1)
	}
}

func compare(ctx context.Context, arguments []string, out, messages io.Writer) (disagreements int, err error) {
	flags := flag.NewFlagSet("differential", flag.ContinueOnError)
	cases := flags.Int("cases", 20000, "how many cases to compare")
	seed := flags.Uint64("seed", 1, "seed of the first case")
	profile := flags.String("profile", string(clustergen.Default), fmt.Sprintf("one of %v", clustergen.Profiles()))
	turns := flags.Int("sequence", 0, "compare sequences of so many turns about one cluster that changes, instead of single cases")
	workers := flags.Int("workers", 2, "how many cases to compare at a time")
	structured := flags.Bool("structured", false, "compare the drop-in for package structured instead of package allocator")
	picked := flags.Bool("picked", false, "compare with the implementation that kube-scheduler picks for the features that are on, instead of the widest")
	steps := flags.Int64("peer-steps", 20000, "how many steps the peer may take for a case before its answer counts as missing")
	progress := flags.Bool("progress", false, "say every 30 seconds how far the run is, and at once what disagrees")
	folder := flags.String("out", "", "folder for scenario files of reduced disagreements; they are printed if empty")
	if err := flags.Parse(arguments); err != nil {
		return 0, err
	}
	if !slices.Contains(clustergen.Profiles(), clustergen.Profile(*profile)) {
		return 0, fmt.Errorf("profile %q is none of %v", *profile, clustergen.Profiles())
	}
	run := differential.Run{
		Comparer: differential.Comparer{
			Ours: ours(*structured), Peer: upstream(*picked), OurLimit: 30 * time.Second, PeerLimit: 30 * time.Second, PeerSteps: *steps,
			Meter: &peer.Meter{},
		},
		Cases: *cases, Seed: *seed, Profile: clustergen.Profile(*profile), Workers: *workers,
	}
	if *progress {
		run.Progress = differential.Progress(messages, *cases, 30*time.Second)
	}
	if *picked {
		run.Decision, run.PeerTries = clustergen.PickedDecision, pickedTries
	}
	if *turns > 0 {
		sequences := differential.Sequences{
			Ours: kept, Peer: run.Peer, OurLimit: run.OurLimit, PeerLimit: run.PeerLimit, PeerSteps: run.PeerSteps,
			Cases: *cases, Turns: *turns, Seed: *seed, Profile: run.Profile, Workers: *workers, Progress: run.Progress,
		}
		report := sequences.Do(ctx)
		return finish(ctx, out, report, *folder, func(d differential.Disagreement) differential.Disagreement {
			d.Turns = sequences.Reduce(ctx, d.Turns)
			return d
		})
	}
	report := run.Do(ctx)
	return finish(ctx, out, report, *folder, func(d differential.Disagreement) differential.Disagreement { return run.Reduce(ctx, d) })
}

// kept are the allocators of ours that keep what they know from turn to turn.
func kept() map[string]alloctest.Allocator {
	return map[string]alloctest.Allocator{"allocator": peer.KeptWith(programs), "structured": structuredPeer}
}

// What does not depend on a sequence is shared by all of them.
var (
	structuredPeer = peer.DrayStructured()
	programs       = cel.NewCache(2000)
)

// finish prints the disagreements, reduced, and the report.
func finish(ctx context.Context, out io.Writer, report *differential.Report, folder string,
	reduce func(differential.Disagreement) differential.Disagreement,
) (int, error) {
	err := show(out, report, folder, reduce)
	report.Print(out)
	fmt.Fprintln(out, report.Summary())
	return report.Disagreements, errors.Join(err, ctx.Err())
}

// pickedTries is how often the peer may be asked: its stable implementation takes pools in
// random order.
const pickedTries = 100

func upstream(picked bool) alloctest.Allocator {
	if picked {
		return peer.Picked()
	}
	return peer.Upstream()
}

func ours(structured bool) alloctest.Allocator {
	if structured {
		return peer.DrayStructured()
	}
	return peer.Dray()
}

// show reduces the first disagreements and prints them or writes them to the folder.
// The error joins those of disagreements that cannot be written.
func show(out io.Writer, report *differential.Report, folder string, reduce func(differential.Disagreement) differential.Disagreement) error {
	var failed error
	for _, disagreement := range report.Disagreed {
		reduced := reduce(disagreement)
		if folder == "" {
			text, err := reduced.Scenario()
			failed = errors.Join(failed, err)
			fmt.Fprintln(out, text)
			continue
		}
		path, err := reduced.Write(folder)
		failed = errors.Join(failed, err)
		fmt.Fprintf(out, "%s: %s\n", path, reduced.Verdict.Disagreement)
	}
	return failed
}
