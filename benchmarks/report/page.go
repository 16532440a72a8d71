// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dray-project/dray/benchmarks"
)

const introduction = `# Dray and its peers, measured

Written by ` + "`make bench`" + `; do not edit. Times are CPU time of the process, garbage collection included, medians of the runs in
[raw.txt](raw.txt), which benchstat reads. Behind each time is the number of allocations, and how many times less than upstream the time is.
All implementations answered alike before anything was timed, and answers were verified independently.

- *upstream*: k8s.io/dynamic-resource-allocation/structured v0.37, as kube-scheduler uses it: one allocator per pod, results for each node.
- *Dray*: its own API, which answers for all nodes and builds results for the node that is chosen. *With results*: builds them for all nodes, too.
- *facade*: Dray behind upstream's API and with upstream's way of calling it: a new allocator per pod, results for each node.
- *equal* pods ask for what the pod before asked for; so do *next* ones, but the pod before has got its devices; *new* ones for what nobody asked for yet, in expressions that are known; *new-selector* ones
  use expressions that nobody used yet, which are compiled; *first* ones are the first that an allocator ever sees, of slices it has not seen. The
  facade indexes them then, Dray's own API has when it learnt of them.

`

// page returns the whole report.
func page(m *measurements) string {
	var b strings.Builder
	b.WriteString(introduction)
	fmt.Fprintf(&b, "%s, %s cores, %s, %s/%s, %s.\n\n", m.machine["cpu"], m.machine["cores"], m.machine["go"], m.machine["goos"], m.machine["goarch"], m.machine["date"])
	b.WriteString("![CPU time per pod against the number of nodes](fleet.svg)\n\n![Steps against size](cliffs.svg)\n")
	floorLine(&b, m)
	workloadTables(&b, m)
	operationTable(&b, m)
	cliffTable(&b, m)
	ruleTable(&b, m)
	parallelTable(&b, m)
	karpenterTable(&b, m)
	return b.String()
}

// floorLine writes the minimum cost of any allocator.
func floorLine(b *strings.Builder, m *measurements) {
	read, _ := m.get("floor/step=read/nodes=5000", floor, cpuPerNode)
	built, _ := m.get("floor/step=result", floor, cpuPerOp)
	fmt.Fprintf(b, "\nThe floor: following one pointer per node takes %s, and building one result takes %s.\n", short(read), short(built))
}

// workloadTables writes one table per group.
func workloadTables(b *strings.Builder, m *measurements) {
	group := ""
	for _, w := range benchmarks.Workloads() {
		if w.Group != group {
			group = w.Group
			fmt.Fprintf(b, "\n## %s, per node\n\n", sentence(group))
			header(b, "", "pod", "upstream", "Dray", "facade", "with results", "needed", "met")
		}
		for _, pod := range w.Pods {
			row(b, workloadCells(m, &w, pod)...)
		}
	}
}

func workloadCells(m *measurements, w *benchmarks.Workload, pod benchmarks.Pod) []string {
	c := comparison{m: m, path: fmt.Sprintf("%s/pod=%s", w.Path(), pod), unit: cpuPerNode}
	demands := c.workloadDemands(w.Needed, pod)
	return []string{readable(w.Name), string(pod), c.cell(upstream), c.cell(own), c.cell(facade), c.cell(results), wanted(demands), verdict(demands)}
}

func operationTable(b *strings.Builder, m *measurements) {
	b.WriteString("\n## Single operations\n\n")
	header(b, "", "upstream", "Dray", "facade", "needed", "met")
	for _, o := range benchmarks.Operations() {
		c := comparison{m: m, path: o.Path, unit: cpuPerOp}
		demands := []demand{c.atMost("", own, o.Own), c.atMost("facade ", facade, o.Facade)}
		row(b, readable(o.Path), c.cell(upstream), c.cell(own), c.cell(facade), wanted(demands), verdict(demands))
	}
}

// cliffTable writes each cliff at its largest size, and the size at which upstream exceeds the time
// limit.
func cliffTable(b *strings.Builder, m *measurements) {
	b.WriteString("\n## Cliffs\n\nOne node, a pod that nobody asked for before; compiling its claims is part of the time. Upstream is given two seconds, and larger sizes are not tried then.\n\n")
	header(b, "", "K is the number of", "K", "upstream", "Dray", "steps", "facade", "needed", "met")
	for _, cliff := range benchmarks.Cliffs() {
		limit := cliffLimit(&cliff)
		for _, k := range cliff.Sizes {
			c := comparison{m: m, path: fmt.Sprintf("cliff=%s/K=%d", cliff.Name, k), unit: cpuPerOp}
			demands := []demand{c.atMost("", own, limit)}
			row(b, readable(cliff.Name), cliff.K, fmt.Sprint(k), c.cell(upstream), c.cell(own), c.count(own, steps), c.cell(facade),
				wanted(demands), verdict(demands))
		}
	}
}

// ruleTable writes by which factor the steps grow if a rule of the search is disabled, if that was
// measured.
func ruleTable(b *strings.Builder, m *measurements) {
	var kinds, without []string
	for key := range m.median {
		switch {
		case key.unit != steps || !strings.HasPrefix(key.implementation, withoutRule):
		case key.implementation == withoutNone:
			kinds = append(kinds, key.path)
		case !slices.Contains(without, key.implementation):
			without = append(without, key.implementation)
		}
	}
	if len(kinds) == 0 {
		return
	}
	slices.Sort(kinds)
	slices.Sort(without)
	b.WriteString("\n## What the rules of the search save\n\nSteps for some inputs of each kind, and how many times as many they are if one rule is left out. An input that is undecided then counts with its budget.\n\n")
	names, with := []string{"left out"}, []string{"none"}
	for _, kind := range kinds {
		all, _ := m.get(kind, withoutNone, steps)
		names, with = append(names, strings.TrimPrefix(readable(kind), "kind ")), append(with, amount(all)+" steps")
	}
	header(b, names...)
	row(b, with...)
	for _, rule := range without {
		cells := []string{strings.TrimPrefix(rule, withoutRule)}
		for _, kind := range kinds {
			all, _ := m.get(kind, withoutNone, steps)
			left, _ := m.get(kind, rule, steps)
			text := fmt.Sprintf("%.2f×", left/all)
			if n, _ := m.get(kind, rule, undecided); n > 0 {
				text = fmt.Sprintf("> %s, %.0f undecided", text, n)
			}
			cells = append(cells, text)
		}
		row(b, cells...)
	}
}

// parallelTable writes wall-clock times, since several goroutines cannot use less CPU time than
// one.
func parallelTable(b *strings.Builder, m *measurements) {
	var paths []string
	for key := range m.median {
		if key.implementation == oneWorker && key.unit == wallPerOp {
			paths = append(paths, key.path)
		}
	}
	if len(paths) == 0 {
		return
	}
	b.WriteString("\n## Several goroutines, on the clock\n\n")
	header(b, "", "one", "two", "speed-up")
	slices.Sort(paths)
	for _, path := range paths {
		one, _ := m.get(path, oneWorker, wallPerOp)
		two, _ := m.get(path, twoWorkers, wallPerOp)
		row(b, readable(path), short(one), short(two), amount(one/two)+"×")
	}
}

// karpenterTable writes the results of benchmarks/karpenter, if they were run.
func karpenterTable(b *strings.Builder, m *measurements) {
	started := false
	for _, w := range benchmarks.Workloads() {
		for _, pod := range []benchmarks.Pod{benchmarks.EqualPod, benchmarks.NextPod, benchmarks.NewPod, benchmarks.SelectorPod, benchmarks.FirstPod} {
			path := fmt.Sprintf("%s/%s/pod=%s", karpenter, w.Path(), pod)
			peer, ok := m.get(path, karpenter, cpuPerNode)
			if !ok {
				continue
			}
			if !started {
				b.WriteString("\n## Karpenter, per node\n\nBoth in one run. What is compared, and what Karpenter answers, says [its README](../karpenter).\n\n")
				header(b, "", "pod", "Karpenter", "Dray")
				started = true
			}
			v, _ := m.get(path, own, cpuPerNode)
			row(b, readable(w.Path()), string(pod), short(peer), fmt.Sprintf("%s (%s×)", short(v), amount(peer/v)))
		}
	}
}

func cliffLimit(cliff *benchmarks.Cliff) time.Duration {
	if cliff.Packing {
		return 5 * time.Millisecond
	}
	return time.Millisecond
}

func header(b *strings.Builder, names ...string) {
	row(b, names...)
	fmt.Fprintln(b, strings.Repeat("|---", len(names))+"|")
}

func row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// readable returns a benchmark's path as words.
func readable(path string) string {
	return strings.NewReplacer("/", ", ", "=", " ", "-", " ").Replace(path)
}

func sentence(group string) string {
	words := readable(group)
	return strings.ToUpper(words[:1]) + words[1:]
}
