// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dray-project/dray/internal/dev/install"
)

// binaries is where `make controlplane install-manifests` puts them.
const binaries = "../../bin"

const renderer install.Renderer = binaries + "/render"

// variants are the ways to install, by what the renderer is asked for.
var variants = map[string][]string{
	"kustomize second":  {"kustomize", "second"},
	"kustomize default": {"kustomize", "default"},
	"helm second":       {"helm", "chart"},
	"helm default":      {"helm", "chart", "chart/values-default.yaml"},
	"kustomize all":     {"kustomize", "all"},
	"helm all":          {"helm", "chart", "chart/values-all.yaml"},
}

// rendered are the objects of a variant.
func rendered(t *testing.T, variant string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := renderer.Objects(t.Context(), variants[variant]...)
	if err != nil {
		t.Fatalf("%s: %v", variant, err)
	}
	return objects
}

// as is the only object of a kind with a name, typed. Names made of content end in more
// than the name.
func as[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	typed, err := install.Find[T](objects, kind)
	if err != nil {
		t.Fatal(err)
	}
	return typed
}
