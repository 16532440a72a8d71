// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestDirect(t *testing.T) {
	paths, err := direct([]byte(`{
		"Require": [
			{"Path": "example.com/used"},
			{"Path": "example.com/indirect", "Indirect": true},
			{"Path": "example.com/tool", "Indirect": true},
			{"Path": "example.com/too", "Indirect": true},
			{"Path": "example.com/replaced"}
		],
		"Replace": [{"Old": {"Path": "example.com/replaced"}}],
		"Tool": [{"Path": "example.com/tool/cmd/x"}]
	}`))
	if err != nil || !slices.Equal(paths, []string{"example.com/used", "example.com/tool"}) {
		t.Errorf("%v, %v", paths, err)
	}
}

func TestPins(t *testing.T) {
	got := pins("KWOK := sigs.k8s.io/kwok@v0.8.0\n\tgo run example.com/vuln/cmd/check@v1.2.3-rc.1 ./...\n\tgo run sigs.k8s.io/kwok@v0.8.0 a@v1\n")
	if want := []pin{{"example.com/vuln", "v1.2.3-rc.1"}, {"sigs.k8s.io/kwok", "v0.8.0"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestModules: the modules of this checkout are found.
func TestModules(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	folders, err := modules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{".", "agent", "schedplugin", "tools", "benchmarks/karpenter", "internal/dev/kubelet"} {
		if !slices.Contains(folders, filepath.Join(root, folder)) {
			t.Errorf("%s is missing: %v", folder, folders)
		}
	}
}
