// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// classes are those that drivers install.
const classes = `
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.example.com}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: mig.nvidia.com}}
`

var manifest = regexp.MustCompile("(?ms)^```yaml\n(apiVersion: .*?)^```$")

// TestManifestsOfPages has the objects on the pages for new users read as strictly as dray reads any.
func TestManifestsOfPages(t *testing.T) {
	for _, page := range []string{"docs/kind.md", "docs/nvidia.md"} {
		text, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := manifest.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no manifest", page)
		}
		for _, block := range blocks {
			file := filepath.Join(t.TempDir(), "manifest.yaml")
			if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			// There is no node, so that nothing is placed. Input that is wrong ends with another status.
			if out, status := runStatus(classes, "dray", "allocate", "-f", "-", "-f", file); status != cli.ExitNotPlaced {
				t.Errorf("%s: %s\n%s", page, out, block[1])
			}
		}
	}
}
