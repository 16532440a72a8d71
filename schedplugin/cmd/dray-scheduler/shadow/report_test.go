// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
)

// counted is how often an outcome was counted, as the endpoint of metrics says.
func counted(t *testing.T, outcome Outcome) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "dray_shadow_pods_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == string(outcome) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Errorf("outcome %s has no metric", outcome)
	return 0
}

// A report counts all outcomes, says which of them are differences, and describes these.
func TestReport(t *testing.T) {
	start := time.Unix(1000, 0)
	r := newReport(start)
	for i, o := range outcomes {
		before := counted(t, o.Outcome)
		for range i + 1 {
			difference := ""
			if o.differ {
				difference = "a pod is " + string(o.Outcome)
			}
			r.add(o.Outcome, difference)
		}
		if got := r.Count(o.Outcome); got != i+1 {
			t.Errorf("%s: %d counted, want %d", o.Outcome, got, i+1)
		}
		if got := counted(t, o.Outcome) - before; got != float64(i+1) {
			t.Errorf("%s: the metric counts %v, want %d", o.Outcome, got, i+1)
		}
	}
	if got := r.Differences(); got != 4+5+6+7 {
		t.Errorf("%d differences", got)
	}
	lines := strings.Split(strings.TrimSuffix(r.Text(start.Add(90*time.Second+300*time.Millisecond)), "\n"), "\n")
	want := []string{
		"28 pods compared in 1m30s",
		"      1 placed with the same devices",
		"      2 unschedulable for both",
		"      3 placed with others, which changed hands at the time",
		"      4 placed with other devices",
		"      5 placed where Dray would not have",
		"      6 unschedulable, though Dray finds a node",
		"      7 not decided by Dray",
		"- a pod is other_devices",
	}
	if len(lines) != 8+22 || strings.Join(lines[:9], "\n") != strings.Join(want, "\n") || lines[29] != "- a pod is failed" {
		t.Errorf("the report says:\n%s", strings.Join(lines, "\n"))
	}
}

// Of many differences, the first hundred are described.
func TestReportOfMany(t *testing.T) {
	r := newReport(time.Unix(0, 0))
	for i := range maxDifferences + 3 {
		r.add(Refused, fmt.Sprintf("difference %d.", i))
		if got := strings.Contains(r.Text(time.Unix(1, 0)), "more\n"); got != (i >= maxDifferences) {
			t.Fatalf("after %d differences: says that there are more %t", i+1, got)
		}
	}
	text := r.Text(time.Unix(1, 0))
	if !strings.Contains(text, "difference 99.\nand 3 more\n") || strings.Contains(text, "difference 100.") {
		t.Errorf("the report says:\n%s", text)
	}
}
