// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// TestTable has each figure in its row, a column for each simulator, and the ratio of two.
func TestTable(t *testing.T) {
	s := &settings{nodes: 10, pods: 20, claims: 30}
	first := figures{nodesPerSecond: 1, registration: 2, memory: 3, requests: 4, podsRun: 5, podsPerSecond: 6, claimPodsRun: 7, claimPods: 8}
	second := figures{nodesPerSecond: 2, registration: 2, memory: 2, requests: 2, podsRun: 2, podsPerSecond: 2, claimPodsRun: 2, claimPods: 2}
	one, two := "|  | a |\n|---|---|\n", "|  | a | b | ratio |\n|---|---|---|---|\n"
	for i, row := range []string{
		"nodes registered per second (10 nodes, with lease and ResourceSlice)", "requests per node until all are registered", "memory, KiB per node",
		"requests per node and minute, idle", "pods per second until they run (20, bound at once)", "the same, until they are gone again",
		"pods with a claim per second until they run (30, through dray-scheduler)", "the same, until they and their claims are gone",
	} {
		one += fmt.Sprintf("| %s | %d.0 |\n", row, i+1)
		two += fmt.Sprintf("| %s | %d.0 | 2.0 | %.2f |\n", row, i+1, float64(i+1)/2)
	}
	if got := table(s, []string{"a"}, []figures{first}); got != one {
		t.Errorf("of one:\n%s\nwant\n%s", got, one)
	}
	if got := table(s, []string{"a", "b"}, []figures{first, second}); got != two {
		t.Errorf("of two:\n%s\nwant\n%s", got, two)
	}
}

func TestFlags(t *testing.T) {
	for arguments, want := range map[string]string{
		"--nodes=0":                         "at least 1 is required",
		"--nodes=2 --gpus=2 --claim-pods=5": "--claim-pods: 5: there are 4 GPUs",
		"--idle=0s":                         "--idle: 0s: must be more than 0",
		"--kwok=x":                          "--kwok needs --kwok-config",
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

// Without --claim-pods, there is a pod for each GPU of a small fleet.
func TestClaimPods(t *testing.T) {
	for nodes, want := range map[int]int{20: 160, 1000: 1000} {
		s := settings{nodes: nodes, gpus: 8, pods: 1, idle: 1}
		if err := s.validate(); err != nil || s.claims != want {
			t.Errorf("%d nodes: %d pods, %v; want %d", nodes, s.claims, err, want)
		}
	}
}
