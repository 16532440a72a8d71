// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestServiceMonitor holds that Prometheus finds the Service, and calls what it scrapes as the alerts
// expect.
func TestServiceMonitor(t *testing.T) {
	var monitor monitoringv1.ServiceMonitor
	text, err := os.ReadFile("../chart/monitoring/servicemonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
		t.Fatal(err)
	}
	for name, objects := range map[string]map[string]object{
		"Kustomize": rendered(t, "kustomize", "../all"),
		"Helm":      rendered(t, "helm", "../chart", "../chart/values-all.yaml"),
	} {
		if objects["ServiceMonitor dray-scheduler"] == nil {
			t.Errorf("%s has no ServiceMonitor", name)
		}
		service := objects["Service dray-scheduler"]
		labels := service["metadata"].(object)["labels"].(object)
		for label, value := range monitor.Spec.Selector.MatchLabels {
			if labels[label] != value {
				t.Errorf("%s: label %s of the Service is %v, selected is %s", name, label, labels[label], value)
			}
		}
		if job := labels[monitor.Spec.JobLabel]; job != "dray-scheduler" {
			t.Errorf("%s: job %v is scraped", name, job)
		}
		ports := service["spec"].(object)["ports"].([]any)
		if port := ports[0].(object)["name"]; len(ports) != 1 || len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Port != port {
			t.Errorf("%s: the Service has port %v, scraped is %+v", name, port, monitor.Spec.Endpoints)
		}
	}
}
