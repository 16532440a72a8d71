package deploy_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/internal/install"
)

// binaries is where `make agent controlplane install-manifests` puts them.
const binaries = "../../bin"

// variants are the ways to install, by what the renderer is asked for.
var variants = map[string][]string{
	"kustomize base":    {"kustomize", "chart/base"},
	"kustomize default": {"kustomize", "default"},
	"helm":              {"helm", "chart"},
}

// render is what the renderer prints.
func render(t *testing.T, arguments ...string) []byte {
	t.Helper()
	text, complaint := askRenderer(t, arguments...)
	if complaint != "" {
		t.Fatalf("render %v: %s; run make install-manifests first", arguments, complaint)
	}
	return text
}

// askRenderer also returns what the renderer complains about.
func askRenderer(t *testing.T, arguments ...string) (text []byte, complaint string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "render"), arguments...)
	var errors bytes.Buffer
	command.Stderr = &errors
	text, err := command.Output()
	if err != nil {
		return nil, err.Error() + ": " + errors.String()
	}
	return text, ""
}

// rendered are the objects that the renderer prints.
func rendered(t *testing.T, arguments ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := install.Decode(render(t, arguments...))
	if err != nil {
		t.Fatalf("%v: %v", arguments, err)
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
		got := texts(t, rendered(t, variant...))
		if kinds, wanted := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(kinds, wanted) {
			t.Fatalf("%s: objects %v, want %v", name, kinds, wanted)
		}
		for kind := range want {
			if got[kind] != want[kind] {
				t.Errorf("%s: %s is\n%s\nwant\n%s", name, kind, got[kind], want[kind])
			}
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
`)
	objects := texts(t, rendered(t, "helm", "chart", values))
	for kind, lines := range map[string][]string{
		"DaemonSet dray-agent": {
			"- --driver=gpu.vendor.example", "- --sysfs=/", "- --device-plugin=false", "- --kubelet-dir=/data/kubelet", "image: example.com/agent@" + digest,
			"imagePullPolicy: Always", "- name: secret", "maxSurge: 10%", "memory: 96Mi", "accelerators: \"yes\"", "key: reserved", "nodeAffinity: {}",
			"priorityClassName: important", "mountPath: /data/kubelet/plugins_registry", "path: /data/kubelet/device-plugins", "path: /data/cdi", "mountPath: /var/run/cdi",
			"cost: shared", "sidecar: none", "team: devices", "owner: sre",
		},
		"ClusterRole dray-agent":               {"- gpu.vendor.example"},
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
	} {
		if _, complaint := askRenderer(t, "helm", "chart", writeFile(t, t.TempDir(), "values.yaml", values)); !strings.Contains(complaint, want) {
			t.Errorf("%s: %q, want %q", values, complaint, want)
		}
	}
}
