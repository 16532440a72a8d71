// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const output = `cores: 3
go: go1.99
date: 2026-01-02
goos: linux
goarch: amd64
cpu: Abacus
pkg: github.com/dray-project/dray/benchmarks
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=upstream-2 10 9 ns/op 40000000 cpu-ns/op 40000 cpu-ns/node 9 B/op 150000 allocs/op
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=upstream-2 10 9 ns/op 44000000 cpu-ns/op 44000 cpu-ns/node 9 B/op 150000 allocs/op
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=upstream-2 10 9 ns/op 90000000 cpu-ns/op 90000 cpu-ns/node 9 B/op 150000 allocs/op
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=dray-2 10 9 ns/op 400000 cpu-ns/op 400 cpu-ns/node 9 B/op 26 allocs/op 0 steps/op
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=dray-structured-2 10 9 ns/op 4000000 cpu-ns/op 4000 cpu-ns/node 9 B/op 9000 allocs/op
BenchmarkWorkload/fleet/state=nothing-matches/nodes=1000/pod=new-selector/impl=upstream-2 10 9 ns/op 200000000 cpu-ns/op 200000 cpu-ns/node 9 B/op 150000 allocs/op
BenchmarkWorkload/fleet/state=nothing-matches/nodes=1000/pod=new-selector/impl=dray-2 10 9 ns/op 200000 cpu-ns/op 200 cpu-ns/node 9 B/op 980 allocs/op 0 steps/op
BenchmarkWorkload/fleet/state=nothing-matches/nodes=1000/pod=new-selector/impl=dray-structured-2 10 9 ns/op 1000000 cpu-ns/op 1000 cpu-ns/node 9 B/op 980 allocs/op
BenchmarkWorkload/fleet/state=nothing-matches/nodes=1000/pod=new/impl=upstream-2 10 9 ns/op 200000000 cpu-ns/op 200000 cpu-ns/node 9 B/op 150000 allocs/op
BenchmarkWorkload/fleet/state=nothing-matches/nodes=1000/pod=new/impl=dray-2 10 9 ns/op 200000 cpu-ns/op 200 cpu-ns/node 9 B/op 980 allocs/op 0 steps/op
BenchmarkWorkload/fleet/state=nothing-matches/nodes=1000/pod=new/impl=dray-structured-2 10 9 ns/op 1000000 cpu-ns/op 1000 cpu-ns/node 9 B/op 980 allocs/op
BenchmarkCliff/cliff=one-device-too-few/K=4/impl=upstream-2 10 0 ns/op 2000000000 at-least-ns/op 0 B/op 0 allocs/op
BenchmarkCliff/cliff=one-device-too-few/K=4/impl=dray-2 10 9 ns/op 2000000 cpu-ns/op 2000000 cpu-ns/node 9 B/op 9 allocs/op 18 steps/op
BenchmarkParallel/unlike/nodes=1000/pod=new/workers=1-2 10 3000 ns/op
BenchmarkParallel/unlike/nodes=1000/pod=new/workers=2-2 10 2000 ns/op
pkg: github.com/dray-project/dray/allocator
BenchmarkRule/kind=fill-shares/without=none-2 1000000000 4000 steps/op 0 undecided/op
BenchmarkRule/kind=fill-shares/without=equal-2 1000000000 6000 steps/op 0 undecided/op
BenchmarkRule/kind=fill-shares/without=ahead-2 1000000000 400000 steps/op 2 undecided/op
pkg: github.com/dray-project/dray/benchmarks/karpenter
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=karpenter-2 10 9 ns/op 50000 cpu-ns/node
BenchmarkWorkload/fleet/state=used/nodes=1000/pod=next/impl=dray-2 10 9 ns/op 500 cpu-ns/node
`

// The table has medians, ratios, what is short, and bounds where upstream gave up.
func TestPage(t *testing.T) {
	m, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	text := page(m)
	for _, line := range []string{
		"Abacus, 3 cores, go1.99, linux/amd64, 2026-01-02.",
		"| state used, nodes 1000 | next | 44 µs, 150 | 400 ns, 0 (110×) | 4 µs, 9 (11×) | – | 40×, facade 15×, 2 allocations, pod 500 µs | **no**: facade 11× |",
		"| 500×, facade 100×, 0 allocations and 1000 for the expression, pod 500 µs | yes |",
		"| 500×, facade 100×, 0 allocations | **no**: 1 allocations |",
		"| one device too few | requests of one device each | 4 | > 2 s | 2 ms, 9 (> 1000×) | 18 | – | 1 ms | **no**: 2 ms |",
		"| unlike, nodes 1000, pod new | 3 µs | 2 µs | 1.5× |",
		"| left out | fill shares |",
		"| none | 4000 steps |",
		"| ahead | > 100.00×, 2 undecided |",
		"| equal | 1.50× |",
		"| fleet, state used, nodes 1000 | next | 50 µs | 500 ns (100×) |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no line\n%s\nin\n%s", line, text)
		}
	}
}

// Both plots are drawn, with a curve for each series that has points.
func TestDraw(t *testing.T) {
	m, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := drawAll(m, folder); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"fleet.svg": "facade, next pod", "cliffs.svg": "one device too few"} {
		drawn, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(drawn), text) {
			t.Errorf("%s does not show %q", file, text)
		}
	}
}

// Output that is no benchmark's is an error rather than an empty plot.
func TestNothingMeasured(t *testing.T) {
	m, err := read(strings.NewReader("PASS\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := drawAll(m, t.TempDir()); err == nil {
		t.Error("plots were drawn of nothing")
	}
}
