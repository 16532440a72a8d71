// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command report turns what the benchmarks of the scheduler left in a folder into a page in
// Markdown, and the figures behind it in JSON.
//
//	go run ./internal/dev/perf/report <folder with results> <folder to write to>
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: report <folder with results> <folder to write to>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// results are the figures of one run of the benchmarks.
type results struct {
	Machine     machine      `json:"machine"`
	Throughput  []scheduling `json:"throughput"`
	FilterPhase []phase      `json:"filterPhase"`
}

func run(from, to string) error {
	var found results
	var err error
	found.Machine = thisMachine()
	if found.Throughput, err = readThroughput(from); err != nil {
		return err
	}
	if found.FilterPhase, err = readPhases(filepath.Join(from, "filter.txt")); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "raw.json"), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	text := page(&found)
	fmt.Print(text)
	return os.WriteFile(filepath.Join(to, "README.md"), []byte(text), 0o644)
}
