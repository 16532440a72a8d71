// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The line of files that are for the libraries of Kubernetes 1.36 only, or not for them.
const (
	olderOnly = "\n//go:build dray_kubernetes_1_36\n"
	notOlder  = "\n//go:build !dray_kubernetes_1_36\n"
)

const agentModule = "github.com/dray-project/dray/agent"

// olderRequired are the oldest libraries of Kubernetes that the packages are built with.
const olderRequired = "v0.36.0"

var olderLibraries = []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/dynamic-resource-allocation", "k8s.io/kubelet"}

// LayOutOlder writes to a folder the module of the packages that drivers import, for drivers
// with the libraries of Kubernetes 1.36. Dray is the root of Dray's sources.
func LayOutOlder(ctx context.Context, dray, folder string) error {
	var packages []string
	for _, ours := range slices.Sorted(maps.Values(driverImports)) {
		packages = append(packages, strings.TrimPrefix(ours, agentModule+"/"))
	}
	for _, name := range packages {
		sources, err := filepath.Glob(filepath.Join(dray, "agent", name, "*.go"))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return err
		}
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue
			}
			text, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			if strings.Contains(string(text), notOlder) {
				continue
			}
			text = []byte(strings.Replace(string(text), olderOnly, "\n", 1))
			if err := os.WriteFile(filepath.Join(folder, name, filepath.Base(source)), text, 0o644); err != nil {
				return err
			}
		}
	}
	goMod := "module " + agentModule + "\n\ngo 1.26.0\n"
	for _, library := range olderLibraries {
		goMod += fmt.Sprintf("\nrequire %s %s\n", library, olderRequired)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(goMod), 0o644); err != nil {
		return err
	}
	// Were anything left that needs later libraries, go mod tidy would require these.
	if _, err := command(ctx, folder, "go", "mod", "tidy"); err != nil {
		return err
	}
	required, err := requirements(ctx, folder)
	if err != nil {
		return err
	}
	for _, r := range required {
		if slices.Contains(olderLibraries, r.Path) && r.Version != olderRequired {
			return fmt.Errorf("%s needs %s %s", folder, r.Path, r.Version)
		}
	}
	return nil
}
