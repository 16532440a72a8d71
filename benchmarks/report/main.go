// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command report turns the output of Dray's benchmarks into a table, in Markdown, and plots. It is
// a module of its own, so that users of Dray do not depend on its plotting libraries.
//
//	go run . ../results/raw.txt ../results
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: report <benchmark output> <folder to write to>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(input, folder string) error {
	output, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	m, err := read(bytes.NewReader(output))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "README.md"), []byte(page(m)), 0o644); err != nil {
		return err
	}
	return drawAll(m, folder)
}
