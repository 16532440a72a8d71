// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// Each workload comes in two sizes, so that what can be tried in seconds is what is measured.
func TestWorkloadsHaveTwoSizes(t *testing.T) {
	workloads, err := Workloads()
	if err != nil {
		t.Fatal(err)
	}
	small := make(map[string]Workload)
	for _, w := range workloads {
		if w.Labelled("small") {
			small[w.String()+"_500nodes"] = w
		}
	}
	full := 0
	for _, w := range workloads {
		if !w.Labelled("full") {
			continue
		}
		full++
		if counterpart, found := small[w.String()]; !found || (counterpart.Burst() > 0) != (w.Burst() > 0) {
			t.Errorf("workload %s has no small counterpart", w)
		}
	}
	if full != len(small) || full == 0 {
		t.Errorf("%d workloads are full, %d small", full, len(small))
	}
}

func TestWorkloadIsWrittenForContestant(t *testing.T) {
	workloads, err := Workloads()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contestants {
		path, err := workloads[0].writeFor(t.TempDir(), c.config)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Name                string           `json:"name"`
			SchedulerConfigPath string           `json:"schedulerConfigPath"`
			Workloads           []map[string]any `json:"workloads"`
		}
		if err := yaml.Unmarshal(content, &cases); err != nil {
			t.Fatal(err)
		}
		if len(cases) != 1 || len(cases[0].Workloads) != 1 || cases[0].SchedulerConfigPath != c.config {
			t.Errorf("%s runs %+v", c.name, cases)
		}
		if c.config == "" {
			continue
		}
		if _, err := os.Stat(c.config); err != nil {
			t.Errorf("configuration of %s: %v", c.name, err)
		}
	}
}
