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
	var output bytes.Buffer
	command := newCommand()
	command.SetOut(&output)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil || !strings.HasPrefix(output.String(), "dray-agent v9, commit abc, go1.") {
		t.Errorf("it prints %q, error %v", output.String(), err)
	}
}
