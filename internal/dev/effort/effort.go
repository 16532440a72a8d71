// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package effort keeps what calls cost in files, so that a change that makes them do more, or less, is seen in review.
// It counts how often a call looks at its context: for each search, and for each part of a long one. Unlike times, the
// counts are the same in each run, wherever floating-point numbers are multiplied and added in two operations.
package effort

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/cockroachdb/datadriven" // defines the flag -rewrite, and many tests import it
)

// counting is a context that counts how often it is asked for its error.
type counting struct {
	context.Context
	asked *atomic.Int64
}

// Err implements context.Context.
func (c counting) Err() error {
	c.asked.Add(1)
	return c.Context.Err()
}

// Counts are counts by the name of a kind of calls. They are not safe for concurrent use.
type Counts map[string]int64

// Of calls a function, and adds what it cost to a name.
func (c Counts) Of(ctx context.Context, name string, call func(context.Context)) {
	var asked atomic.Int64
	call(counting{ctx, &asked})
	c[name] += asked.Load()
}

// Compare compares the counts with those of the file testdata/effort.txt. With the flag -rewrite, it writes the file.
func (c Counts) Compare(t testing.TB) {
	t.Helper()
	if !fuses() { // else numbers are rounded otherwise, so that a search may take another way
		c.compare(t)
	}
}

func (c Counts) compare(t testing.TB) {
	t.Helper()
	path := filepath.Join("testdata", "effort.txt")
	var lines []string
	for name, count := range c {
		lines = append(lines, fmt.Sprintf("%s: %d\n", name, count))
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("The calls cost more, or less, than %s says. If that is meant, run the test with -rewrite.\ngot:\n%swant:\n%s", path, got, want)
	}
}

// fuses reports whether the program multiplies and adds in one operation, as it does on arm64, and with GOAMD64=v3.
func fuses() bool {
	const small = 1.0 / (1 << 30)
	return multiplyAndAdd(1+small, 1-small, -1) != 0
}

//go:noinline
func multiplyAndAdd(x, y, z float64) float64 { return x*y + z }
