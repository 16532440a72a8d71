// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	releaseVersion, releaseCommit = "v9", "abc"
	t.Cleanup(func() { releaseVersion, releaseCommit = "", "" })
	for _, want := range []string{"dray-agent v9, commit abc, go1.", "dray-agent (devel), go1."} {
		var output bytes.Buffer
		command := newCommand()
		command.SetOut(&output)
		command.SetArgs([]string{"--version"})
		if err := command.Execute(); err != nil || !strings.HasPrefix(output.String(), want) {
			t.Errorf("it prints %q, want %q, error %v", output.String(), want, err)
		}
		releaseVersion, releaseCommit = "", "" // then the Go toolchain knows
	}
}
