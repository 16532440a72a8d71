// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // a log format that scheduler_perf has a flag for
	schedperf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

var (
	size   = flag.String("size", "small", "label of the workloads to run: small or full")
	rounds = flag.Int("rounds", 1, "how often to run each workload with each contestant")
	chosen = flag.String("workloads", ".", "regular expression of the workloads to run, as Case/workload")
)

func TestMain(m *testing.M) {
	if err := schedperf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	schedperf.PerfSchedulingLabelFilter = *size
	os.Exit(m.Run())
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
