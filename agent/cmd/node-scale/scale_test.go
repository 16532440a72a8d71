// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestSumOf(t *testing.T) {
	const metrics = `# TYPE requests_total counter
requests_total{path="/a",code="200"} 3
requests_total{path="}",code="500"} 1e+02
requests_total_more{path="/a"} 7
other{path="/a"} 9
`
	if got, err := sumOf(metrics, "requests_total"); err != nil || got != 103 {
		t.Errorf("got %g, %v", got, err)
	}
	for name, want := range map[string]string{"missing": "metric missing: not there", "bad": "metric bad: strconv"} {
		if _, err := sumOf(metrics+"bad{} x\n", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestResidentKiB(t *testing.T) {
	if kib, err := residentKiB(os.Getpid()); err != nil || kib < 1024 {
		t.Errorf("got %g KiB, %v", kib, err)
	}
	if _, err := residentKiB(-1); err == nil {
		t.Error("a process that cannot be has memory")
	}
}

func TestParallel(t *testing.T) {
	var sum atomic.Int64
	if err := parallel(t.Context(), 100, func(_ context.Context, i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 4950 {
		t.Errorf("the sum is %d, error %v", sum.Load(), err)
	}
	broken := errors.New("no")
	if err := parallel(t.Context(), 1000, func(_ context.Context, i int) error {
		if i == 3 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestTable(t *testing.T) {
	s := &settings{nodes: 10, pods: 20, claims: 5}
	one := figures{nodesPerSecond: 50, registration: 3, memory: 200, requests: 8, podsRun: 40, podsPerSecond: 20, claimPodsRun: 10, claimPods: 4}
	two := figures{nodesPerSecond: 25, registration: 6, memory: 100, requests: 8, podsRun: 40, podsPerSecond: 40, claimPodsRun: 20, claimPods: 4}
	got := table(s, []string{"a", "b"}, []figures{one, two})
	for _, want := range []string{
		"|  | a | b | ratio |\n|---|---|---|---|\n",
		"| nodes registered per second (10 nodes, with lease and ResourceSlice) | 50.0 | 25.0 | 2.00 |\n",
		"| requests per node until all are registered | 3.0 | 6.0 | 0.50 |\n",
		"| memory, KiB per node | 200.0 | 100.0 | 2.00 |\n",
		"| the same, until they are gone again | 20.0 | 40.0 | 0.50 |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("printed\n%s\nwant %q in it", got, want)
		}
	}
	if got := table(s, []string{"a"}, []figures{one}); strings.Contains(got, "ratio") || !strings.Contains(got, "| memory, KiB per node | 200.0 |\n") {
		t.Errorf("printed\n%s", got)
	}
}

func TestFlags(t *testing.T) {
	for arguments, want := range map[string]string{
		"--nodes=0":                         "at least 1 is required",
		"--nodes=2 --gpus=2 --claim-pods=5": "--claim-pods: 5: there are 4 GPUs",
		"--idle=0s":                         "--idle: 0s: must be more than 0",
		"--kwok=x":                          "--kwok needs --kwok-stages",
		"--binaries=none":                   `"make agent controlplane" builds them`,
	} {
		command := newCommand()
		command.SetArgs(strings.Fields(arguments))
		command.SetOut(io.Discard)
		command.SetErr(io.Discard)
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", arguments, err, want)
		}
	}
}

func TestStages(t *testing.T) {
	folder := t.TempDir()
	var stages []string
	for _, name := range []string{"a", "b"} {
		stages = append(stages, filepath.Join(folder, name))
		if err := os.WriteFile(stages[len(stages)-1], []byte("kind: "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := (&kwok{stages: stages}).config(folder)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "kind: a\n---\nkind: b" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := (&kwok{stages: []string{"none"}}).config(folder); err == nil || !strings.Contains(err.Error(), "--kwok-stages") {
		t.Errorf("got %v", err)
	}
}
