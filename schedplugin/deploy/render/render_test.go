// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const valuesOfDefault = "../chart/values-default.yaml"

// object is any object of Kubernetes.
type object = map[string]any

// documents are the objects of a text by kind and name. What only one of the two tools adds
// is left out: the hash in the name of a ConfigMap, the checksum of what is in it, and the
// labels of a release.
func documents(t *testing.T, text string) map[string]object {
	t.Helper()
	found := make(map[string]object)
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) > 0 {
			found[normalize(t, o)] = o
		}
	}
	return found
}

func normalize(t *testing.T, o object) string {
	t.Helper()
	metadata := o["metadata"].(object)
	labels := metadata["labels"].(object)
	delete(labels, "app.kubernetes.io/instance")
	delete(labels, "app.kubernetes.io/managed-by")
	name := metadata["name"].(string)
	data, _ := o["data"].(object)
	switch {
	case o["kind"] == "ConfigMap" && data["scheduler-config.yaml"] != nil:
		name = "dray-scheduler-config"
		metadata["name"] = name
		for file, text := range data {
			var config object
			if err := yaml.UnmarshalStrict([]byte(text.(string)), &config); err != nil {
				t.Fatal(err)
			}
			data[file] = config
		}
	case o["kind"] == "Deployment":
		template := o["spec"].(object)["template"].(object)
		delete(template["metadata"].(object), "annotations")
		for _, volume := range template["spec"].(object)["volumes"].([]any) {
			if source := volume.(object)["configMap"].(object); strings.HasPrefix(source["name"].(string), "dray-scheduler-config") {
				source["name"] = "dray-scheduler-config"
			}
		}
	}
	return o["kind"].(string) + " " + name
}

func encoded(t *testing.T, o object) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rendered(t *testing.T, arguments ...string) map[string]object {
	t.Helper()
	text, err := render(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, text)
}

// TestToolsAgree finds what one way of installing has and the other has not.
func TestToolsAgree(t *testing.T) {
	for name, test := range map[string]struct{ kustomize, helm map[string]object }{
		"second":  {rendered(t, "kustomize", "../second"), rendered(t, "helm", "../chart")},
		"default": {rendered(t, "kustomize", "../default"), rendered(t, "helm", "../chart", valuesOfDefault)},
		"all":     {rendered(t, "kustomize", "../all"), rendered(t, "helm", "../chart", "../chart/values-all.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "all" && len(test.helm) < 12 {
				t.Errorf("there are only %v", slices.Sorted(maps.Keys(test.helm)))
			}
			kinds := slices.Sorted(maps.Keys(test.kustomize))
			if others := slices.Sorted(maps.Keys(test.helm)); !slices.Equal(kinds, others) {
				t.Fatalf("Kustomize has %v, Helm has %v", kinds, others)
			}
			for _, kind := range kinds {
				if k, h := encoded(t, test.kustomize[kind]), encoded(t, test.helm[kind]); k != h {
					t.Errorf("%s: with Kustomize\n%s\nwith Helm\n%s", kind, k, h)
				}
			}
		})
	}
}

// TestVariants holds what a second scheduler must not share with the first one.
func TestVariants(t *testing.T) {
	for folder, want := range map[string]struct{ profile, lease string }{
		"../second":  {"dray-scheduler", "dray-scheduler"},
		"../default": {"default-scheduler", "kube-scheduler"},
	} {
		objects := rendered(t, "kustomize", folder)
		config := objects["ConfigMap dray-scheduler-config"]["data"].(object)["scheduler-config.yaml"].(object)
		if got := config["profiles"].([]any)[0].(object)["schedulerName"]; got != want.profile {
			t.Errorf("%s: schedulerName %v, want %s", folder, got, want.profile)
		}
		if got := config["leaderElection"].(object)["resourceName"]; got != want.lease {
			t.Errorf("%s: lease %v, want %s", folder, got, want.lease)
		}
		rule := objects["Role dray-scheduler"]["rules"].([]any)[1].(object)
		if got := rule["resourceNames"].([]any); len(got) != 1 || got[0] != want.lease {
			t.Errorf("%s: the role names leases %v, want %s", folder, got, want.lease)
		}
	}
}

// TestPatchOfPolicy has the patch that docs/operations.md shows name the drivers whose devices are for one scheduler.
func TestPatchOfPolicy(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```yaml\npatches:\n")
	patch, _, ends := strings.Cut(after, "```")
	if !found || !ends {
		t.Fatal("docs/operations.md has no patch")
	}
	folder := t.TempDir()
	here, err := filepath.Abs("../second")
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Rel(folder, here)
	if err != nil {
		t.Fatal(err)
	}
	overlay := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + base + "]\npatches:\n" + patch
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	want, got := rendered(t, "kustomize", "../second"), rendered(t, "kustomize", folder)
	const policy = "ValidatingAdmissionPolicy dray-scheduler-devices"
	want[policy]["spec"].(object)["variables"].([]any)[0].(object)["expression"] = `["gpu.example.com"]`
	if w, g := encoded(t, want[policy]), encoded(t, got[policy]); w != g {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}
