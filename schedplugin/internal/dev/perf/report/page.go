// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/dray-project/dray/schedplugin/internal/dev/perf"
)

// Contestants, as results name them.
const (
	inTree = "in-tree"
	dray   = "dray"
	floor  = "floor"
)

const introduction = `# kube-scheduler with Dray and its peers, measured

Written by ` + "`make bench-scheduler`" + `; do not edit. The figures behind the tables are in [raw.json](raw.json); where there are several rounds,
the tables have medians.

- *in-tree*: kube-scheduler 1.37 as it is, with the plugin DynamicResources.
- *Dray*: the same with the plugin Dray in its place, configured as it is deployed.
- *floor*: the same with a plugin that knows the devices beforehand, and makes the necessary writes only: what remains if
  allocation takes no time at all.

API server, controllers and scheduler share one process, with etcd beside it, on two cores: as long as those keep them busy, no plugin makes
a difference to the number of pods per second. CPU time per pod shows what each plugin takes.

`

// page is the whole report.
func page(r *results) string {
	var b strings.Builder
	b.WriteString(introduction)
	fmt.Fprintf(&b, "%s.\n", r.Machine)
	workloads := r.workloads()
	r.throughputTable(&b, workloads)
	r.latencyTable(&b, workloads)
	r.cpuTable(&b, workloads)
	r.phaseTable(&b)
	return b.String()
}

// workloads are those that there are results of, in the order of their file.
func (r *results) workloads() []perf.Workload {
	all, err := perf.Workloads()
	if err != nil {
		return nil // what they would be named by could not have been measured
	}
	var found []perf.Workload
	for _, w := range all {
		for i := range r.Throughput {
			if r.Throughput[i].Workload == w.String() {
				found = append(found, w)
				break
			}
		}
	}
	return found
}

// burstOf is how many pods a workload creates at once, zero for a steady state.
func burstOf(workload string) (int, error) {
	all, err := perf.Workloads()
	if err != nil {
		return 0, err
	}
	for _, w := range all {
		if w.String() == workload {
			return w.Burst(), nil
		}
	}
	return 0, fmt.Errorf("there is no workload %s", workload)
}

func (r *results) throughputTable(b *strings.Builder, workloads []perf.Workload) {
	b.WriteString("\n## Throughput\n\nPods per second.\n\n")
	header(b, "workload", "in-tree", "Dray", "floor", "Dray to floor", "Dray to in-tree", "needed", "met")
	figure := func(s *scheduling) float64 { return s.PodsPerSecond }
	for _, w := range workloads {
		upstream, _ := r.median(w.String(), inTree, figure)
		ours, _ := r.median(w.String(), dray, figure)
		least, _ := r.median(w.String(), floor, figure)
		times := 1.0
		if w.SearchBound() {
			times = 5
		}
		row(b, w.String(), number(upstream), number(ours), number(least), percent(ours, least), ratio(ours, upstream),
			fmt.Sprintf("95 %%, %.0f×", times), verdict(ours >= 0.95*least && ours >= times*upstream))
	}
}

func (r *results) latencyTable(b *strings.Builder, workloads []perf.Workload) {
	b.WriteString("\n## Latency\n\nMilliseconds: median and 99th percentile, from the scheduler's histograms. PreFilter and Filter are for all nodes that were looked at;\n" +
		"a cycle is from taking the pod off the queue to having it bound.\n\n")
	header(b, "workload", "", "in-tree", "Dray", "floor")
	for _, w := range workloads {
		for _, point := range []string{"PreFilter", "Filter", wholeCycle} {
			row(b, w.String(), strings.Replace(point, wholeCycle, "cycle", 1),
				r.quantiles(w, inTree, point), r.quantiles(w, dray, point), r.quantiles(w, floor, point))
		}
	}
}

func (r *results) quantiles(w perf.Workload, contestant, point string) string {
	p50, found := r.median(w.String(), contestant, func(s *scheduling) float64 { return s.Latency[point].P50 })
	p99, _ := r.median(w.String(), contestant, func(s *scheduling) float64 { return s.Latency[point].P99 })
	if !found {
		return ""
	}
	return number(p50) + ", " + number(p99)
}

func (r *results) cpuTable(b *strings.Builder, workloads []perf.Workload) {
	b.WriteString("\n## CPU time\n\nSeconds of CPU time while measuring, and milliseconds per pod: of the process, of the scheduler in it, of the plugin.\n\n")
	header(b, "workload", "", "in-tree", "Dray", "floor", "Dray to floor", "Dray to in-tree")
	parts := []struct {
		name   string
		figure func(*scheduling) float64
	}{
		{"process", func(s *scheduling) float64 { return s.CPU.Process }},
		{"scheduler", func(s *scheduling) float64 { return s.CPU.Scheduler }},
		{"plugin", func(s *scheduling) float64 { return s.CPU.Plugin }},
	}
	for _, w := range workloads {
		for _, part := range parts {
			perPod := func(s *scheduling) float64 { return 1000 * part.figure(s) / max(s.Pods, 1) }
			cells := []string{w.String(), part.name}
			values := make(map[string]float64)
			for _, contestant := range []string{inTree, dray, floor} {
				spent, _ := r.median(w.String(), contestant, part.figure)
				values[contestant], _ = r.median(w.String(), contestant, perPod)
				cells = append(cells, fmt.Sprintf("%s s, %s", number(spent), number(values[contestant])))
			}
			row(b, append(cells, ratio(values[dray], values[floor]), ratio(values[dray], values[inTree]))...)
		}
	}
}

func (r *results) phaseTable(b *strings.Builder) {
	if len(r.FilterPhase) == 0 {
		return
	}
	b.WriteString("\n## Filter phase\n\nMilliseconds of CPU time for PreFilter and Filter of one pod on all of 5,000 simulated nodes, with no API server and nothing else of the scheduler.\n\n")
	header(b, "workload", "in-tree", "Dray", "in-tree to Dray", "needed", "met")
	seen := make(map[string]bool)
	for _, p := range r.FilterPhase {
		if seen[p.Workload] {
			continue
		}
		seen[p.Workload] = true
		upstream, _ := r.phaseMedian(p.Workload, inTree)
		ours, _ := r.phaseMedian(p.Workload, dray)
		row(b, p.Workload, number(1000*upstream), number(1000*ours), ratio(upstream, ours), "20×", verdict(upstream >= 20*ours))
	}
}
