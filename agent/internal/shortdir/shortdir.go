// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shortdir has folders for tests that listen at unix sockets, whose paths are short:
// those of testing.T have the name of the test.
package shortdir

import (
	"os"
	"testing"
)

// longest is how many bytes the machine's temporary folder may have. Tests add some 60.
const longest = 30

// New makes a folder in the machine's temporary folder, or in /tmp if that is too deep. It
// is removed when the test ends.
func New(t testing.TB) string {
	t.Helper()
	parent := os.TempDir()
	if len(parent) > longest {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
