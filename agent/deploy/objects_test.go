// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/internal/dev/install"
)

// binaries is where `make agent controlplane install-manifests` puts them.
const binaries = "../../bin"

const renderer install.Renderer = binaries + "/render"

// variants are the ways to install, by what the renderer is asked for.
var variants = map[string][]string{
	"kustomize base":    {"kustomize", "chart/base"},
	"kustomize default": {"kustomize", "default"},
	"helm":              {"helm", "chart"},
}

// processesVariants are the ways to install the account of agents that run pods as processes, besides.
var processesVariants = map[string][]string{
	"kustomize base":      {"kustomize", "chart/processes"},
	"kustomize processes": {"kustomize", "processes"},
}

// rendered are the objects that the renderer prints.
func rendered(t *testing.T, arguments ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := renderer.Objects(t.Context(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// as is the only object of a kind, typed.
func as[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	typed, err := install.Find[T](objects, kind)
	if err != nil {
		t.Fatal(err)
	}
	return typed
}

// texts are objects as YAML, by kind and name, without the labels of a release.
func texts(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, object := range objects {
		labels := object.GetLabels()
		delete(labels, "app.kubernetes.io/instance")
		delete(labels, "app.kubernetes.io/managed-by")
		object.SetLabels(labels)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[object.GetKind()+" "+object.GetName()] = string(text)
	}
	return out
}

// TestToolsAgree finds what one way of installing has and another has not.
func TestToolsAgree(t *testing.T) {
	want := texts(t, rendered(t, variants["kustomize base"]...))
	if len(want) != 7 {
		t.Errorf("there are %v", slices.Sorted(maps.Keys(want)))
	}
	for name, variant := range variants {
		compareTexts(t, name, texts(t, rendered(t, variant...)), want)
	}
	account := texts(t, rendered(t, processesVariants["kustomize base"]...))
	if len(account) != 5 {
		t.Errorf("there are %v", slices.Sorted(maps.Keys(account)))
	}
	for name, variant := range processesVariants {
		compareTexts(t, name, texts(t, rendered(t, variant...)), account)
	}
	maps.Copy(want, account)
	both := writeFile(t, t.TempDir(), "values.yaml", "processes: {enabled: true}")
	compareTexts(t, "helm with processes", texts(t, rendered(t, "helm", "chart", both)), want)
}

func compareTexts(t *testing.T, name string, got, want map[string]string) {
	t.Helper()
	if kinds, wanted := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(kinds, wanted) {
		t.Fatalf("%s: objects %v, want %v", name, kinds, wanted)
	}
	for kind := range want {
		if got[kind] != want[kind] {
			t.Errorf("%s: %s is\n%s\nwant\n%s", name, kind, got[kind], want[kind])
		}
	}
}

func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestValues sets every value, and looks for it in what comes out.
func TestValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	values := writeFile(t, t.TempDir(), "values.yaml", `
driver: gpu.vendor.example
image: {repository: example.com/agent, tag: v9, digest: "`+digest+`", pullPolicy: Always}
imagePullSecrets: [{name: secret}]
maxSurge: 10%
extraArgs: [--device-plugin=false]
resources: {limits: {memory: 96Mi}}
nodeSelector: {accelerators: "yes"}
tolerations: [{key: reserved, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: important
kubeletDir: /data/kubelet
cdiDir: /data/cdi
labels: {team: devices}
annotations: {owner: sre}
podLabels: {cost: shared}
podAnnotations: {sidecar: none}
networkPolicy: {ingressFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}
processes: {enabled: true}
`)
	objects := texts(t, rendered(t, "helm", "chart", values))
	for kind, lines := range map[string][]string{
		"DaemonSet dray-agent": {
			"- --driver=gpu.vendor.example", "- --sysfs=/host", "- --device-plugin=false", "- --kubelet-dir=/data/kubelet", "image: example.com/agent@" + digest,
			"imagePullPolicy: Always", "- name: secret", "maxSurge: 10%", "memory: 96Mi", "accelerators: \"yes\"", "key: reserved", "nodeAffinity: {}",
			"priorityClassName: important", "mountPath: /data/kubelet/plugins_registry", "path: /data/kubelet/device-plugins", "path: /data/cdi", "mountPath: /var/run/cdi",
			"cost: shared", "sidecar: none", "team: devices", "owner: sre",
		},
		"ClusterRole dray-agent":               {"- gpu.vendor.example"},
		"ClusterRole dray-agent-processes":     {"- gpu.vendor.example", "team: devices", "owner: sre"},
		"Role dray-agent-processes":            {"namespace: kube-node-lease", "team: devices"},
		"NetworkPolicy dray-agent":             {"name: monitoring"},
		"ValidatingAdmissionPolicy dray-agent": {"system:serviceaccount:kube-system:dray-agent", "team: devices"},
	} {
		for _, line := range lines {
			if !strings.Contains(objects[kind], line) {
				t.Errorf("%s has no %q:\n%s", kind, line, objects[kind])
			}
		}
	}
	if text := objects["DaemonSet dray-agent"]; strings.Contains(text, "pci.example.com") || strings.Contains(text, "48Mi") || strings.Contains(text, "kubernetes.io/os") || strings.Contains(text, "/var/lib/kubelet") {
		t.Errorf("values are added to what they replace:\n%s", text)
	}
	for values, want := range map[string]string{
		"drivers: a":            "drivers",
		"driver: A":             "driver",
		"maxSurge: 0":           "maxSurge", // nothing would ever be updated
		"kubeletDir: kubelet":   "kubeletDir",
		"image: {tag: 1}":       "tag",
		"networkPolicy: {x: 1}": "x",
		"processes: true":       "processes",
	} {
		_, err := renderer.Text(t.Context(), "helm", "chart", writeFile(t, t.TempDir(), "values.yaml", values))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", values, err, want)
		}
	}
}
