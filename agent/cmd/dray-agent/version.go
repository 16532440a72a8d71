// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker for releases. Other builds use the build information of the Go toolchain.
var (
	releaseVersion string
	releaseCommit  string
)

// version returns the output of --version after the program's name: version, commit and toolchain.
func version() string {
	number, commit := releaseVersion, releaseCommit
	if build, ok := debug.ReadBuildInfo(); ok {
		number = cmp.Or(number, build.Main.Version)
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				commit = cmp.Or(commit, setting.Value)
			}
		}
	}
	if commit != "" {
		number += ", commit " + commit
	}
	return fmt.Sprintf("%s, %s %s/%s", number, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
