// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// query is one metric that an alert or a panel reads.
type query struct {
	// From names the alert or the panel.
	From string `json:"from"`
	// Metric is the name as it is exposed, with the suffix of a histogram.
	Metric string `json:"metric"`
	// Labels are the names of those that are compared or summed by.
	Labels []string `json:"labels"`
}

// queries are all that the files of a monitoring folder read, as a JSON list.
func queries(folder string) (string, error) {
	expressions, err := alerts(filepath.Join(folder, "prometheusrule.yaml"))
	if err != nil {
		return "", err
	}
	more, err := panels(filepath.Join(folder, "dashboard.json"))
	if err != nil {
		return "", err
	}
	found := []query{}
	for _, e := range append(expressions, more...) {
		read, err := e.reads()
		if err != nil {
			return "", fmt.Errorf("%s: %w", e.from, err)
		}
		found = append(found, read...)
	}
	text, err := json.MarshalIndent(found, "", "  ")
	return string(text) + "\n", err
}

// expression is PromQL with the alert or the panel that it belongs to.
type expression struct{ from, text string }

func alerts(path string) ([]expression, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rules monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var found []expression
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			found = append(found, expression{"alert " + rule.Alert, rule.Expr.String()})
		}
	}
	return found, nil
}

// dashboard is what is read of a dashboard of Grafana.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func panels(path string) ([]expression, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var found []expression
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			// Grafana puts a duration in its place. The other variables are in strings.
			found = append(found, expression{"panel " + panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	return found, nil
}

// reads are the metrics of an expression. Labels to sum by count for all of them.
func (e expression) reads() ([]query, error) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(e.text)
	if err != nil {
		return nil, err
	}
	var found []query
	parser.Inspect(root, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		read := query{From: e.from, Metric: selector.Name, Labels: []string{}}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != labels.MetricName {
				read.Labels = append(read.Labels, matcher.Name)
			}
		}
		for _, above := range path {
			if sum, ok := above.(*parser.AggregateExpr); ok && !sum.Without {
				read.Labels = append(read.Labels, sum.Grouping...)
			}
		}
		found = append(found, read)
		return nil
	})
	return found, nil
}
