// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega" //nolint:revive // how expectations are written
	"k8s.io/component-base/metrics/testutil"
)

// query is one metric that an alert or a panel reads, as the renderer prints it.
type query struct {
	From   string
	Metric string
	Labels []string
}

// ofPrometheus are labels that Prometheus adds to what it reads.
var ofPrometheus = []string{"job", "instance"}

// compareMetrics finds alerts and panels that read what the scheduler does not expose. The
// framework measures plugins for one pod in ten, chosen at random: pods come until it has.
func (s *stage) compareMetrics(t *testing.T) {
	read, err := renderer.Text(t.Context(), "queries", "chart/monitoring")
	if err != nil {
		t.Fatal(err)
	}
	var queries []query
	if err := json.Unmarshal(read, &queries); err != nil {
		t.Fatal(err)
	}
	if len(queries) < 20 {
		t.Errorf("only %d metrics are read: %v", len(queries), queries)
	}
	token := s.installed.token(t, s.namespace, "default")
	pods := 0
	NewWithT(t).Eventually(func() ([]string, error) {
		pods++
		name := fmt.Sprintf("measured-%d", pods)
		s.addPod(t, name)
		s.expectRunning(t, name)
		answer, err := s.installed.get("https", "/metrics", token)
		if err != nil {
			return nil, err
		}
		_, text, _ := strings.Cut(answer, "\n")
		return unanswered(queries, text)
	}).WithTimeout(2 * patience).Should(BeEmpty())
}

// unanswered are the queries for which there is no series with all their labels.
func unanswered(queries []query, text string) ([]string, error) {
	exposed := testutil.NewMetrics()
	if err := testutil.ParseMetrics(text, &exposed); err != nil {
		return nil, err
	}
	var found []string
	for _, q := range queries {
		if q.Metric == "up" { // made by Prometheus, for each target
			continue
		}
		var has []string
		for _, sample := range exposed[q.Metric] {
			for label := range sample.Metric {
				has = append(has, string(label))
			}
		}
		switch missing := slices.DeleteFunc(slices.Clone(q.Labels), func(label string) bool {
			return slices.Contains(has, label) || slices.Contains(ofPrometheus, label)
		}); {
		case len(exposed[q.Metric]) == 0:
			found = append(found, fmt.Sprintf("%s: there is no metric %s", q.From, q.Metric))
		case len(missing) > 0:
			found = append(found, fmt.Sprintf("%s: metric %s has no label %s", q.From, q.Metric, strings.Join(missing, ", ")))
		}
	}
	return found, nil
}

func TestUnanswered(t *testing.T) {
	found, err := unanswered([]query{
		{From: "a", Metric: "requests_total", Labels: []string{"job", "code"}},
		{From: "b", Metric: "requests_total", Labels: []string{"verb"}},
		{From: "c", Metric: "answers_total"},
		{From: "d", Metric: "seconds_bucket", Labels: []string{"le"}},
		{From: "e", Metric: "up", Labels: []string{"job"}},
	}, `# TYPE requests_total counter
requests_total{code="200"} 1
# TYPE seconds histogram
seconds_bucket{le="1"} 1
seconds_bucket{le="+Inf"} 2
seconds_sum 3
seconds_count 2
`)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"b: metric requests_total has no label verb", "c: there is no metric answers_total"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
