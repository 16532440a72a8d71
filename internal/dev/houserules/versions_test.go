// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// sharing are the modules that are built together with the main one. They require the same versions of what it requires, so that
// Kubernetes is compiled once for all of them.
var sharing = []string{"agent", "schedplugin", "benchmarks/kueue", "internal/dev/kubelet", "internal/dev/view", "schedplugin/deploy/render", "tools/images"}

// apart are what Helm requires in later versions, and nothing of Kubernetes' clients is made of.
var apart = map[string][]string{"schedplugin/deploy/render": {"github.com/go-errors/errors", "sigs.k8s.io/kustomize/kyaml"}}

func TestVersionsAgree(t *testing.T) {
	of := func(folder string) map[string]string {
		text, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, folder, "go.mod")).Output()
		if err != nil {
			t.Fatal(err)
		}
		versions, err := requirements(text)
		if err != nil {
			t.Fatal(err)
		}
		return versions
	}
	common := of(".")
	for _, folder := range sharing {
		versions := of(folder)
		for _, path := range apart[folder] {
			delete(versions, path)
		}
		for _, difference := range differences(common, versions) {
			t.Errorf("%s/go.mod requires %s", folder, difference)
		}
	}
}

// requirements reads what `go mod edit -json` prints.
func requirements(text []byte) (map[string]string, error) {
	var module struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(text, &module); err != nil {
		return nil, err
	}
	versions := make(map[string]string)
	for _, r := range module.Require {
		versions[r.Path] = r.Version
	}
	return versions, nil
}

// differences lists what both require, at other versions.
func differences(common, other map[string]string) (list []string) {
	for path, version := range other {
		if here, both := common[path]; both && here != version {
			list = append(list, fmt.Sprintf("%s %s, the main module %s", path, version, here))
		}
	}
	slices.Sort(list)
	return list
}

func TestDifferences(t *testing.T) {
	common := map[string]string{"a.example/x": "v1.0.0", "a.example/y": "v1.0.0"}
	got := differences(common, map[string]string{"a.example/x": "v1.1.0", "a.example/y": "v1.0.0", "a.example/z": "v3.0.0"})
	if !slices.Equal(got, []string{"a.example/x v1.1.0, the main module v1.0.0"}) {
		t.Errorf("got %q", got)
	}
}
