// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	nodes := flag.Int("nodes", 1000, "nodes of the cluster")
	pods := flag.Int("pods", 6600, "pods with claims on them")
	peers := flag.Bool("peers", true, "measure the peer, too")
	flag.Parse()
	if err := run(context.Background(), *nodes, *pods, *peers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes, pods int, peers bool) error {
	w, err := newWorld(ctx, nodes, pods)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, w)
	if err != nil {
		return err
	}
	fmt.Printf("%d nodes, %d pods with claims, %.0f%% of GPUs in use, %d claims\n", nodes, len(w.cluster.Pods), 100*b.inUse(), len(w.cluster.Claims))
	if peers {
		if err := b.agree(); err != nil {
			return err
		}
		fmt.Println("the peer gives the same answers")
	} else if err := b.readTemplates(); err != nil {
		return err
	}
	if err := b.consistent(); err != nil {
		return err
	}
	// Each row is printed at once, since all of them take minutes.
	const line = "%-58s %-32s %12s %12s   %s\n"
	fmt.Printf(line, "QUESTION", "PEER", "DRAY", "ALLOCATED", "NEEDED")
	for _, row := range b.rows() {
		peer := "–"
		if peers && row.peer != nil {
			if peer, err = b.peerTime(row); err != nil {
				return err
			}
		}
		ours := row.measure()
		took := show(ours.perOp)
		if ours.ratio != 0 {
			took = fmt.Sprintf("%.2f×", ours.ratio)
		}
		fmt.Printf(line, row.name, peer, took, fmt.Sprintf("%d B", ours.bytes), row.needed)
	}
	return nil
}

func show(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return fmt.Sprintf("%.2f µs", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
