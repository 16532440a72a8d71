// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker for releases. Otherwise the Go toolchain knows.
var (
	releaseVersion string
	releaseCommit  string
)

// version is what --version prints after the name of the program: the version, the commit and what it was built with.
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
