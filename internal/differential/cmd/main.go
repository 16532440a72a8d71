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
	"time"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
	"github.com/dray-project/dray/internal/differential"
	"github.com/dray-project/dray/internal/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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

func compare(ctx context.Context, arguments []string, out, progress io.Writer) (disagreements int, err error) {
	flags := flag.NewFlagSet("differential", flag.ContinueOnError)
	cases := flags.Int("cases", 20000, "how many cases to compare")
	seed := flags.Uint64("seed", 1, "seed of the first case")
	profile := flags.String("profile", string(clustergen.Default), "default or hard")
	workers := flags.Int("workers", 2, "how many cases to compare at a time")
	structured := flags.Bool("structured", false, "compare the drop-in for package structured instead of package allocator")
	folder := flags.String("out", "", "folder for scenario files of reduced disagreements; they are printed if empty")
	if err := flags.Parse(arguments); err != nil {
		return 0, err
	}
	if p := clustergen.Profile(*profile); p != clustergen.Default && p != clustergen.Hard {
		return 0, fmt.Errorf("profile %q is neither default nor hard", *profile)
	}
	run := differential.Run{
		Comparer: differential.Comparer{
			Ours: ours(*structured), Peer: peer.Upstream(), OurLimit: 30 * time.Second, PeerLimit: 2 * time.Second,
			Meter: &peer.Meter{},
		},
		Cases: *cases, Seed: *seed, Profile: clustergen.Profile(*profile), Workers: *workers,
		Progress: differential.Progress(progress, *cases),
	}
	report := run.Do(ctx)
	err = show(ctx, out, &run.Comparer, report, *folder)
	report.Print(out)
	fmt.Fprintln(out, report.Summary())
	return report.Disagreements, errors.Join(err, ctx.Err())
}

func ours(structured bool) alloctest.Allocator {
	if structured {
		return peer.DrayStructured()
	}
	return peer.Dray()
}

// show reduces the first disagreements and prints them or writes them to the folder.
// The error joins those of disagreements that cannot be written.
func show(ctx context.Context, out io.Writer, comparer *differential.Comparer, report *differential.Report, folder string) error {
	var failed error
	for _, disagreement := range report.Disagreed {
		reduced := comparer.Reduce(ctx, disagreement)
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
