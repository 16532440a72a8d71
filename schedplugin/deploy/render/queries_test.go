// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// monitoring writes a folder with an alert and a panel.
func monitoring(t *testing.T, alert, panel string) string {
	t.Helper()
	folder := t.TempDir()
	rule, err := json.Marshal(object{"spec": object{"groups": []any{object{"name": "g", "rules": []any{object{"alert": "Broken", "expr": alert}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	dashboard, err := json.Marshal(object{"panels": []any{object{"title": "Row"}, object{"title": "Speed", "targets": []any{object{"expr": panel}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"prometheusrule.yaml": rule, "dashboard.json": dashboard} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestQueries(t *testing.T) {
	text, err := render([]string{"queries", monitoring(t,
		`sum(rate(errors_total{job="a", code=~"5.."}[5m])) > 0.1 * sum(requests)`,
		`histogram_quantile(0.9, sum by (le, verb) (rate(seconds_bucket{job="$job"}[$__rate_interval])))`)})
	if err != nil {
		t.Fatal(err)
	}
	var found []query
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	want := []query{
		{From: "alert Broken", Metric: "errors_total", Labels: []string{"job", "code"}},
		{From: "alert Broken", Metric: "requests", Labels: []string{}},
		{From: "panel Speed", Metric: "seconds_bucket", Labels: []string{"job", "le", "verb"}},
	}
	if !slices.EqualFunc(found, want, func(a, b query) bool {
		return a.From == b.From && a.Metric == b.Metric && slices.Equal(a.Labels, b.Labels)
	}) {
		t.Errorf("found %+v, want %+v", found, want)
	}
}

func TestQueriesRejects(t *testing.T) {
	for want, folder := range map[string]string{
		"alert Broken":        monitoring(t, "sum(", "up"),
		"panel Speed":         monitoring(t, "up", "rate(up[)"),
		"prometheusrule.yaml": t.TempDir(),
	} {
		if _, err := render([]string{"queries", folder}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
