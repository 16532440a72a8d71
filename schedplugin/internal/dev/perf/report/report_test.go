// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestIdentify(t *testing.T) {
	var s scheduling
	if err := s.identify("BenchmarkPerfScheduling/Accelerators/half/in-tree-2/Accelerators/half/measured"); err != nil {
		t.Fatal(err)
	}
	if s.Workload != "Accelerators/half" || s.Contestant != inTree || s.Round != 2 {
		t.Errorf("got %+v", s)
	}
	for _, name := range []string{"", "a/b/c", "a/b/c/d"} {
		if err := s.identify(name); err == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
}

func TestAttribute(t *testing.T) {
	sample := func(seconds float64, functions ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, int64(seconds * 1e9)}}
		for _, name := range functions {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		return s
	}
	const loop = "k8s.io/kubernetes/pkg/scheduler.(*Scheduler).ScheduleOne"
	p := &profile.Profile{Sample: []*profile.Sample{
		sample(1, "runtime.mallocgc", "github.com/dray-project/dray/schedplugin.(*Plugin).Filter", loop),
		sample(2, "runtime.mallocgc", "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources.(*Fit).Filter", loop),
		sample(4, "k8s.io/apiserver/pkg/endpoints.handle"),
	}}
	if got, want := attribute(p, pluginCode[dray]), (cpuSeconds{Process: 7, Scheduler: 3, Plugin: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := attribute(p, pluginCode[inTree]); got.Plugin != 0 {
		t.Errorf("the plugin in the tree has %v s of Dray's", got.Plugin)
	}
}

func TestReadPhases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filter.txt")
	output := `goos: linux
BenchmarkFilterPhase/half/in-tree-2     3  90 ns/op  400000000 cpu-ns/pod  64 B/op
BenchmarkFilterPhase/half/dray-2        3  90 ns/op  10000000 cpu-ns/pod  64 B/op
BenchmarkFilterPhase/half/dray          3  90 ns/op  30000000 cpu-ns/pod  64 B/op
PASS
`
	if err := os.WriteFile(path, []byte(output), 0o600); err != nil {
		t.Fatal(err)
	}
	phases, err := readPhases(path)
	if err != nil {
		t.Fatal(err)
	}
	r := results{FilterPhase: phases}
	if got, found := r.phaseMedian("half", dray); !found || got != 0.02 {
		t.Errorf("median is %v s, want 0.02", got)
	}
	if text := page(&r); !strings.Contains(text, "| half | 400 | 20.0 | 20.0× | 20× | yes |") {
		t.Errorf("page:\n%s", text)
	}
	if phases, err := readPhases(path + ".missing"); err != nil || phases != nil {
		t.Errorf("without output: %v, %v", phases, err)
	}
}

func TestPage(t *testing.T) {
	run := func(workload, contestant string, podsPerSecond, seconds float64) scheduling {
		return scheduling{
			Workload: workload, Contestant: contestant, PodsPerSecond: podsPerSecond, Pods: 100, Seconds: 10,
			Latency: map[string]quantiles{"Filter": {P50: 1, P99: 5}, wholeCycle: {P50: 20, P99: 90}},
			CPU:     cpuSeconds{Process: 10, Scheduler: 2 * seconds, Plugin: seconds},
		}
	}
	text := page(&results{Throughput: []scheduling{
		run("Partitions/backtracking_half", inTree, 10, 5), run("Partitions/backtracking_half", dray, 40, 1), run("Partitions/backtracking_half", floor, 41, 0.5),
		run("Accelerators/half", inTree, 10, 5), run("Accelerators/half", dray, 96, 1), run("Accelerators/half", floor, 100, 0.5),
		run("Accelerators/burst", dray, 94, 1), run("Accelerators/burst", floor, 100, 1), run("Accelerators/burst", inTree, 94, 1),
	}})
	for _, line := range []string{
		"| Accelerators/burst | 94.0 | 94.0 | 100 | 94 % | 1.00× | 95 %, 1× | **no** |\n| Accelerators/half | 10.0 | 96.0 | 100 | 96 % | 9.60× | 95 %, 1× | yes |",
		"| Partitions/backtracking_half | 10.0 | 40.0 | 41.0 | 98 % | 4.00× | 95 %, 5× | **no** |",
		"| Accelerators/half | cycle | 20.0, 90.0 | 20.0, 90.0 | 20.0, 90.0 |",
		"| Accelerators/half | plugin | 5.00 s, 50.0 | 1.00 s, 10.0 | 0.500 s, 5.00 | 2.00× | 0.200× |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("line is missing: %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestBurstOf(t *testing.T) {
	for workload, want := range map[string]int{"Accelerators/burst": 500, "Accelerators/half": 0, "ExtendedResources/burst": 500, "ListAttributes/empty": 0} {
		if got, err := burstOf(workload); err != nil || got != want {
			t.Errorf("burst of %s is %d, %v; want %d", workload, got, err, want)
		}
	}
	if _, err := burstOf("unknown"); err == nil {
		t.Error("an unknown workload is accepted")
	}
}
