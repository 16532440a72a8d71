// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeValues writes a file of values, and returns its path.
func writeValues(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestValues sets every value, and looks for it in what comes out.
func TestValues(t *testing.T) {
	values := writeValues(t, `
schedulerName: gpus
drayArgs: {scoring: {packing: 7}}
plugins: {score: {disabled: [{name: ImageLocality}]}, postFilter: {enabled: [{name: Mine}]}}
pluginConfig: [{name: Mine, args: {size: 5}}]
extraProfiles: [{schedulerName: spread, drayArgs: {scoring: {spreading: 3}}}, {schedulerName: plain}]
clientConnection: {qps: 750}
parallelism: 48
image: {repository: example.com/scheduler, tag: v9, pullPolicy: Always}
imagePullSecrets: [{name: secret}]
replicas: 3
extraArgs: [--feature-gates=GenericWorkload=true]
resources: {requests: {cpu: 3}}
nodeSelector: {zone: a}
tolerations: [{key: reserved, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{topologyKey: rack, maxSkew: 2}]
priorityClassName: important
labels: {team: devices}
annotations: {owner: sre}
podLabels: {cost: shared}
podAnnotations: {sidecar: none}
networkPolicy: {ingressFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}], egress: [{ports: [{port: 6443}]}]}
prometheusRule: {enabled: true, labels: {release: prometheus}}
serviceMonitor: {enabled: true, labels: {release: operator}}
grafanaDashboard: {enabled: true, labels: {folder: kubernetes}}
exclusiveDevices: {enabled: true, drivers: [gpu.example.com, nic.example.com], users: [system:kube-scheduler]}
`)
	objects := rendered(t, "helm", "../chart", values)
	for kind, lines := range map[string][]string{
		"ConfigMap dray-scheduler-config": {
			"schedulerName: gpus", "resourceName: gpus", "name: Dray", "packing: 7", "name: Mine", "size: 5", "name: ImageLocality",
			"schedulerName: spread", "spreading: 3", "schedulerName: plain", "qps: 750", "burst: 600", "parallelism: 48", "team: devices",
		},
		"Role dray-scheduler":                {"- gpus", "team: devices", "owner: sre"},
		"NetworkPolicy dray-scheduler":       {"name: monitoring", "port: 6443", "- Egress"},
		"PrometheusRule dray-scheduler":      {"release: prometheus"},
		"ServiceMonitor dray-scheduler":      {"release: operator", "port: https", "team: devices"},
		"ConfigMap dray-scheduler-dashboard": {"grafana_dashboard: \"1\"", "folder: kubernetes", "dray_node_answers_total"},
		"ValidatingAdmissionPolicy dray-scheduler-devices": {
			"team: devices", `'["gpu.example.com","nic.example.com"]'`, `'["system:serviceaccount:kube-system:dray-scheduler","system:kube-scheduler"]'`,
		},
		"Deployment dray-scheduler": {
			"mountPath: /etc/dray-scheduler-switches\n", "name: dray-scheduler-switches\n          optional: true\n",
			"image: example.com/scheduler:v9", "imagePullPolicy: Always", "- name: secret", "replicas: 3",
			"- --feature-gates=GenericWorkload=true", "- --config=/etc/dray-scheduler/scheduler-config.yaml",
			"cpu: 3", "zone: a", "key: reserved", "nodeAffinity: {}", "topologyKey: rack", "priorityClassName: important",
			"cost: shared",
		},
	} {
		text := encoded(t, objects[kind])
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("%s has no %q:\n%s", kind, line, text)
			}
		}
	}
	if text := encoded(t, objects["Deployment dray-scheduler"]); strings.Contains(text, "podAntiAffinity") || strings.Contains(text, "memory") || strings.Contains(text, "ScheduleAnyway") {
		t.Errorf("values are added to what they replace:\n%s", text)
	}
}

// twoProfiles are values with arguments for Dray, and a profile with another plugin.
const twoProfiles = `
drayArgs: {scoring: {packing: 7}}
extraProfiles:
- schedulerName: other
  plugins: {multiPoint: {disabled: [{name: ImageLocality}]}, score: {enabled: [{name: Mine, weight: 4}]}}
  pluginConfig: [{name: Mine, args: {size: 5}}]
`

// TestProfiles holds that each profile has Dray, its own arguments, and what it adds.
func TestProfiles(t *testing.T) {
	objects := rendered(t, "helm", "../chart", writeValues(t, twoProfiles))
	profiles := objects["ConfigMap dray-scheduler-config"]["data"].(object)["scheduler-config.yaml"].(object)["profiles"].([]any)
	if len(profiles) != 2 {
		t.Fatalf("there are %d profiles, want 2", len(profiles))
	}
	for i, want := range []string{`pluginConfig:
- args:
    apiVersion: config.dray/v1alpha1
    kind: DrayArgs
    scoring:
      packing: 7
    switchesFile: /etc/dray-scheduler-switches/switches.yaml
  name: Dray
plugins:
  multiPoint:
    disabled:
    - name: DynamicResources
    enabled:
    - name: Dray
      weight: 2
  podGroupPostFilter:
    enabled:
    - name: Dray
  postFilter:
    enabled:
    - name: Dray
  preEnqueue:
    enabled:
    - name: Dray
schedulerName: dray-scheduler
`, `pluginConfig:
- args:
    apiVersion: config.dray/v1alpha1
    kind: DrayArgs
    switchesFile: /etc/dray-scheduler-switches/switches.yaml
  name: Dray
- args:
    size: 5
  name: Mine
plugins:
  multiPoint:
    disabled:
    - name: DynamicResources
    - name: ImageLocality
    enabled:
    - name: Dray
      weight: 2
  podGroupPostFilter:
    enabled:
    - name: Dray
  postFilter:
    enabled:
    - name: Dray
  preEnqueue:
    enabled:
    - name: Dray
  score:
    enabled:
    - name: Mine
      weight: 4
schedulerName: other
`} {
		if got := encoded(t, profiles[i].(object)); got != want {
			t.Errorf("profile %d is\n%s\nwant\n%s", i, got, want)
		}
	}
}

func TestImageByDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	objects := rendered(t, "helm", "../chart", writeValues(t, "image: {repository: example.com/scheduler, tag: v9, digest: \""+digest+"\"}"))
	if text := encoded(t, objects["Deployment dray-scheduler"]); !strings.Contains(text, "image: example.com/scheduler@"+digest+"\n") {
		t.Errorf("the image is not named by its digest:\n%s", text)
	}
}

// TestValuesAreChecked gives values that the schema or a template refuses.
func TestValuesAreChecked(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                               "replica",
		"clientConnection: {qps: 0}":               "clientConnection",
		"parallelism: -1":                          "parallelism",
		"image: {repository: a, digest: sha256:1}": "digest",
		"extraProfiles: [{drayArgs: {}}]":          "schedulerName",
		"plugins: {score: {enable: []}}":           "plugins",
		"exclusiveDevices: {drivers: []}":          "exclusiveDevices.drivers is empty",
	} {
		if _, err := render([]string{"helm", "../chart", writeValues(t, values)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", values, err, want)
		}
	}
}

func TestRenderRejects(t *testing.T) {
	values := writeValues(t, "a: 1\na: 2\n")
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
