// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// program is a command that is released.
type program struct {
	name   string
	module string // the folder of its module
	path   string // of the package, from there
	readme string // that goes with it
	// systems are those that it runs on.
	systems []string
	plugin  bool   // of kubectl
	flags   string // for the linker
}

func (r *release) programs() []program {
	released := func(pkg string) string {
		return fmt.Sprintf("-s -w -X %[1]s.releaseVersion=%[2]s -X %[1]s.releaseCommit=%[3]s", pkg, r.Version, r.commit)
	}
	return []program{
		{
			name: "dray", module: ".", path: "./cmd/dray", readme: "README.md", systems: []string{"linux", "darwin", "windows"}, plugin: true,
			flags: released("github.com/dray-project/dray/cmd/dray/internal/cli"),
		},
		{
			name: "dray-scheduler", module: "schedplugin", path: "./cmd/dray-scheduler", readme: "docs/scheduler-authors.md", systems: []string{"linux"},
			// Feature gates depend on the version of the Kubernetes inside. That of Dray is build metadata.
			flags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2+dray." + r.Version +
				" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37",
		},
		{name: "dray-agent", module: "agent", path: "./cmd/dray-agent", readme: "agent/README.md", systems: []string{"linux"}, flags: released("main")},
	}
}

// platformsOf are those of the release that a program runs on.
func (r *release) platformsOf(p program) []string {
	var platforms []string
	for _, platform := range r.Platforms {
		if system, _, _ := strings.Cut(platform, "/"); slices.Contains(p.systems, system) {
			platforms = append(platforms, platform)
		}
	}
	return platforms
}

// build builds a program. What it builds depends on the sources and the version only. The flags are those of the Makefile, so that
// nothing is compiled twice.
func (r *release) build(p program, platform string) (string, error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("platform %q: want SYSTEM/ARCHITECTURE", platform)
	}
	binary := filepath.Join(r.Out, "build", system+"_"+architecture, p.name)
	if system == "windows" {
		binary += ".exe"
	}
	_, err := r.command("go", []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture},
		"-C", filepath.Join(r.Root, p.module), "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", p.flags, "-o", binary, p.path)
	return binary, err
}
