// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // a log format that scheduler_perf has a flag for
	schedperf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

var (
	size   = flag.String("size", "small", "label of the workloads to run: tiny, small or full")
	rounds = flag.Int("rounds", 1, "how often to run each workload with each contestant")
	chosen = flag.String("workloads", ".", "regular expression of the workloads to run, as Case/workload")
)

func TestMain(m *testing.M) {
	if err := schedperf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	schedperf.PerfSchedulingLabelFilter = *size
	if err := findSources(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// findSources tells the API server where its source is: it takes certificates from there. Programs that are built
// with -trimpath do not know. Then the API server reads the variables that Bazel sets for tests.
func findSources() error {
	if _, file, _, _ := runtime.Caller(0); filepath.IsAbs(file) {
		return nil
	}
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOMODCACHE: %w", err)
	}
	return errors.Join(os.Setenv("TEST_SRCDIR", strings.TrimSpace(string(modules))), os.Setenv("TEST_WORKSPACE", "."))
}

// All contestants run the smallest workload as `make bench-scheduler` has them run the others.
func TestBenchmarkRuns(t *testing.T) {
	programs, err := filepath.Abs("../../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(programs, "etcd")); err != nil {
		t.Fatalf("%v: run make etcd", err)
	}
	results := t.TempDir()
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^$", "-test.bench", "^BenchmarkPerfScheduling$", "-test.benchtime", "1x",
		"-size", "tiny", "-data-items-dir", results, "-with-data-items-unique-id=false")
	run.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output[max(0, len(output)-10_000):])
	}
	for _, c := range contestants {
		files, err := filepath.Glob(filepath.Join(results, "*_"+c.name+"-0_*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("results of %s: %q, %v", c.name, files, err)
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var measured struct {
			DataItems []struct {
				Data   map[string]float64 `json:"data"`
				Labels map[string]string  `json:"labels"`
			} `json:"dataItems"`
		}
		if err := json.Unmarshal(content, &measured); err != nil {
			t.Fatalf("%s: %v", files[0], err)
		}
		seconds := 0.0
		for _, item := range measured.DataItems {
			if item.Labels["Metric"] == "scheduler_scheduling_attempt_duration_seconds" && item.Labels["result"] == "scheduled" {
				seconds = item.Data["Average"]
			}
		}
		if seconds <= 0 {
			t.Errorf("%s has no attempt that placed a pod: %s", c.name, content)
		}
	}
}

// BenchmarkPerfScheduling has all contestants run each workload, one after the other, so that
// whatever else the machine does hits all of them alike. Results are in files, which the
// flags of scheduler_perf ask for. It needs etcd in the PATH.
func BenchmarkPerfScheduling(b *testing.B) {
	workloads, err := Workloads()
	if err != nil {
		b.Fatal(err)
	}
	wanted := regexp.MustCompile(*chosen)
	for round := range *rounds {
		for _, w := range workloads {
			if !w.Labelled(*size) || !wanted.MatchString(w.String()) {
				continue
			}
			for i := range contestants {
				// Nobody always comes first.
				runContestant(b, w, contestants[(i+round)%len(contestants)], round)
			}
		}
	}
}

func runContestant(b *testing.B, w Workload, c contestant, round int) {
	topic := fmt.Sprintf("%s-%d", c.name, round)
	b.Run(fmt.Sprintf("%s/%s", w, topic), func(b *testing.B) {
		path, err := w.writeFor(b.TempDir(), c.config)
		if err != nil {
			b.Fatal(err)
		}
		schedperf.RunBenchmarkPerfScheduling(b, path, topic, c.registry)
	})
}
