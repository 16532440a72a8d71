// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// manifest is a block of a page with objects of Kubernetes.
var manifest = regexp.MustCompile("(?ms)^```yaml\n(apiVersion: .*?)^```$")

// TestManifestsOfPages has the API server validate each object that is shown in the docs, without keeping it.
func TestManifestsOfPages(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range manifest.FindAllStringSubmatch(string(text), -1) {
			for document := range strings.SplitSeq(block[1], "\n---\n") {
				objects++
				if err := dryRun(t, document); err != nil {
					t.Errorf("%s: %v\n%s", filepath.Base(page), err, document)
				}
			}
		}
	}
	if objects < 5 {
		t.Errorf("only %d objects are found", objects)
	}
	for _, wrong := range []string{
		"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: main, image: pause, resourcs: {}}]}}",
		"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: a}, spec: {devices: {requests: [{name: gpu, exactly: {}}]}}}",
	} {
		if err := dryRun(t, wrong); err == nil {
			t.Errorf("the API server takes %s", wrong)
		}
	}
}

func dryRun(t *testing.T, document string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
		return err
	}
	if object.GetNamespace() == "" && object.GetKind() != "ClusterRole" {
		object.SetNamespace("default")
	}
	_, err := in(t, object).Create(t.Context(), object, metav1.CreateOptions{FieldValidation: "Strict", DryRun: []string{metav1.DryRunAll}})
	return err
}
