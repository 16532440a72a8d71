// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/alloctest"
)

const budgetFile = "testdata/budgets.txt"

const budgetHeader = `# What each workload and cliff may cost: steps, CEL evaluations and allocations for one
# pod. TestBudgets fails where more than 2 % and two steps or evaluations are added, or
# more than 5 % and eight allocations. go test ./benchmarks -run TestBudgets -rewrite
# writes this file.
`

// work is what a pod costs. The drop-in facade does not tell its steps.
type work struct{ steps, evaluations, allocations int64 }

func (w work) String() string {
	return fmt.Sprintf("steps=%d cel=%d allocs=%d", w.steps, w.evaluations, w.allocations)
}

// within tells whether the work is no more than another, apart from small differences.
func (w work) within(budget work) bool {
	return w.steps <= budget.steps+budget.steps/50+2 &&
		w.evaluations <= budget.evaluations+budget.evaluations/50+2 &&
		w.allocations <= budget.allocations+budget.allocations/20+8
}

// The work that Dray does for each workload and cliff stays within what is recorded. It
// is counted, not timed, so that the check says the same on any machine.
func TestBudgets(t *testing.T) {
	measured := make(map[string]work)
	for _, w := range Workloads() {
		if w.Heavy {
			continue // large fleets cost the same by node
		}
		c := w.Build()
		for _, pod := range w.Pods {
			if pod != FirstPod {
				countAll(t, measured, fmt.Sprintf("%s/pod=%s", w.Path(), pod), pod, c, c.Nodes)
			}
		}
	}
	for _, cliff := range Cliffs() {
		for _, k := range cliff.Sizes {
			c := cliff.Build(k)
			countAll(t, measured, fmt.Sprintf("cliff=%s/K=%d", cliff.Name, k), NewPod, c, []*corev1.Node{askedNode(c)})
		}
	}
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		writeBudgets(t, measured)
		return
	}
	checkBudgets(t, measured)
}

// countAll counts the work of Dray's own API, and behind the facade.
func countAll(t *testing.T, measured map[string]work, path string, pod Pod, c *alloctest.Case, nodes []*corev1.Node) {
	t.Helper()
	for _, impl := range implementations {
		if impl.name == drayName || impl.name == facadeName {
			measured[path+"/impl="+impl.name] = count(t, &impl, pod, c, nodes)
		}
	}
}

// count leaves out the first pods: what grows at first, such as tables of answers, has
// grown then. The median is not disturbed by what the runtime does meanwhile.
func count(t *testing.T, impl *implementation, pod Pod, c *alloctest.Case, nodes []*corev1.Node) work {
	t.Helper()
	s := impl.mustOpen(t, c)
	workOn(t, s, pod, c, nodes)
	stats := workOn(t, s, pod, c, nodes)
	if pod == NewPod && impl.name == drayName && stats.Steps == 0 {
		t.Errorf("%s: nothing was searched for a pod that nobody asked for before", c.Name)
	}
	var counts []int64
	for range 5 {
		claims := pod.Claims(c, nextPod())
		var a answers
		var err error
		counts = append(counts, allocations(func() { a, err = s.ask(t.Context(), claims, nodes) }))
		if err != nil {
			t.Fatal(err)
		}
		if pod == NextPod {
			place(t, s, claims, a, len(nodes))
		}
	}
	slices.Sort(counts)
	return work{stats.Steps, stats.CELEvaluations, counts[len(counts)/2]}
}

// allocations counts those of a function.
func allocations(f func()) int64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs - before.Mallocs)
}

func checkBudgets(t *testing.T, measured map[string]work) {
	budgets := readBudgets(t)
	for _, path := range slices.Sorted(maps.Keys(measured)) {
		budget, recorded := budgets[path]
		switch got := measured[path]; {
		case !recorded:
			t.Errorf("%s: no budget in %s; it costs %s", path, budgetFile, got)
		case !got.within(budget):
			t.Errorf("%s: costs %s, and may cost %s", path, got, budget)
		}
		delete(budgets, path)
	}
	for _, path := range slices.Sorted(maps.Keys(budgets)) {
		t.Errorf("%s: there is a budget in %s, but no such workload", path, budgetFile)
	}
}

func readBudgets(t *testing.T) map[string]work {
	text, err := os.ReadFile(budgetFile)
	if err != nil {
		t.Fatal(err)
	}
	budgets := make(map[string]work)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var path string
		var w work
		if lines.Text() == "" || lines.Text()[0] == '#' {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%s steps=%d cel=%d allocs=%d", &path, &w.steps, &w.evaluations, &w.allocations); err != nil {
			t.Fatalf("%s: %q: %v", budgetFile, lines.Text(), err)
		}
		budgets[path] = w
	}
	return budgets
}

func writeBudgets(t *testing.T, measured map[string]work) {
	text := bytes.NewBufferString(budgetHeader)
	for _, path := range slices.Sorted(maps.Keys(measured)) {
		fmt.Fprintf(text, "%s %s\n", path, measured[path])
	}
	if err := os.WriteFile(budgetFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
