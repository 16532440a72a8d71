package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestValues sets every value, and looks for it in what comes out.
func TestValues(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(`
schedulerName: gpus
drayArgs: {scoring: {packing: 7}}
image: {repository: example.com/scheduler, tag: v9, pullPolicy: Always}
imagePullSecrets: [{name: secret}]
replicas: 3
extraArgs: [--feature-gates=GenericWorkload=true]
resources: {requests: {cpu: 3}}
nodeSelector: {zone: a}
tolerations: [{key: reserved, operator: Exists}]
affinity: {nodeAffinity: {}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, "helm", "../chart", values)
	for kind, lines := range map[string][]string{
		"ConfigMap dray-scheduler-config": {"schedulerName: gpus", "resourceName: gpus", "name: Dray", "packing: 7"},
		"Role dray-scheduler":             {"- gpus"},
		"Deployment dray-scheduler": {
			"image: example.com/scheduler:v9", "imagePullPolicy: Always", "- name: secret", "replicas: 3",
			"- --feature-gates=GenericWorkload=true", "- --config=/etc/dray-scheduler/scheduler-config.yaml",
			"cpu: 3", "zone: a", "key: reserved", "nodeAffinity: {}",
		},
	} {
		text := encoded(t, objects[kind])
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("%s has no %q:\n%s", kind, line, text)
			}
		}
	}
	if text := encoded(t, objects["Deployment dray-scheduler"]); strings.Contains(text, "podAntiAffinity") || strings.Contains(text, "memory") {
		t.Errorf("values are added to what they replace:\n%s", text)
	}
}

func TestRenderRejects(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("a: 1\na: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, arguments := range map[string][]string{
		"want kustomize FOLDER":  {"helm"},
		"kustomize ../nowhere":   {"kustomize", "../nowhere"},
		"chart ../nowhere":       {"helm", "../nowhere"},
		"values " + values + ":": {"helm", "../chart", values},
		"values nowhere.yaml":    {"helm", "../chart", "nowhere.yaml"},
	} {
		if _, err := render(arguments); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", arguments, err, want)
		}
	}
}
