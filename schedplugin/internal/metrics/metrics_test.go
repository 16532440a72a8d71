// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/dray-project/dray/allocator"
)

// values are the counters, gauges and counts of histograms of the plugin, by name and outcome.
func values(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			list[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return list
}

// TestMetrics: each thing that happens is counted where docs/operations.md says so, and nowhere else.
func TestMetrics(t *testing.T) {
	Register()
	Register() // once per program, whoever asks
	start := time.Now()
	searched, known := allocator.Stats{Steps: 3}, allocator.Stats{}
	for _, test := range []struct {
		what string
		do   func()
		want map[string]float64
	}{
		{"a search", func() { Answered(Satisfiable, searched, nil) }, map[string]float64{"dray_node_answers_total satisfiable": 1, "dray_search_steps": 1}},
		{"a known answer", func() { Answered(Unsatisfiable, known, nil) }, map[string]float64{"dray_node_answers_total unsatisfiable": 1, "dray_remembered_answers_total": 1}},
		{"an undecided search", func() { Answered(Undecided, searched, nil) }, map[string]float64{"dray_node_answers_total undecided": 1, "dray_search_steps": 1}},
		{"a search out of time", func() { Answered(Timeout, searched, errors.New("deadline")) }, map[string]float64{"dray_node_answers_total timeout": 1}},
		{"a search given up", func() { Answered(Cancelled, searched, errors.New("cancelled")) }, map[string]float64{"dray_node_answers_total cancelled": 1}},
		{"a failed search", func() { Answered(Error, known, errors.New("failed")) }, map[string]float64{"dray_node_answers_total error": 1}},
		{"a search for the node that is taken", func() { Searched(searched, nil) }, map[string]float64{"dray_search_steps": 1}},
		{"chosen devices", func() { Chosen(start) }, map[string]float64{"dray_allocations_total success": 1, "dray_allocation_duration_seconds": 1}},
		{"devices that are not there", NotChosen, map[string]float64{"dray_allocations_total error": 1}},
		{"an observation", func() { Observed(start, 5, 7) }, map[string]float64{"dray_state_update_duration_seconds": 1, "dray_pools": 5, "dray_allocated_claims": 7}},
		{"the next one", func() { Observed(start, 4, 7) }, map[string]float64{"dray_state_update_duration_seconds": 1, "dray_pools": -1}},
		{"an Event", EventWritten, map[string]float64{"dray_events_total written": 1}},
		{"an Event too many", EventLimited, map[string]float64{"dray_events_total limited": 1}},
		{"an attempt left undecided", LeftUndecided, map[string]float64{"dray_undecided_attempts_total": 1}},
		{"an allocation of somebody else", AllocatedByOther, map[string]float64{"dray_foreign_allocations_total": 1}},
		{"a plan for a group", func() { Planned(Satisfiable) }, map[string]float64{"dray_group_plans_total satisfiable": 1}},
		{"a conflict", Conflict, map[string]float64{"dray_claim_conflicts_total": 1}},
	} {
		before := values(t)
		test.do()
		changes := make(map[string]float64)
		for name, value := range values(t) {
			if strings.HasPrefix(name, subsystem+"_") && value != before[name] {
				changes[name] = value - before[name]
			}
		}
		if fmt.Sprint(changes) != fmt.Sprint(test.want) {
			t.Errorf("%s counts %v, want %v", test.what, changes, test.want)
		}
	}
}

// TestCountersStartAtZero: a rate needs the zero that comes before the first one.
func TestCountersStartAtZero(t *testing.T) {
	Register()
	list := values(t)
	for _, outcome := range []string{Satisfiable, Unsatisfiable, Undecided, Timeout, Cancelled, Error} {
		if _, there := list["dray_node_answers_total "+outcome]; !there {
			t.Errorf("no counter of nodes that are %s", outcome)
		}
	}
}
