// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shortdir makes folders with short paths, for tests that listen on unix sockets. Paths of
// testing.T.TempDir contain the test's name, and may be too long.
package shortdir

import (
	"os"
	"testing"
)

// longest is the maximum length of the machine's temporary folder, in bytes. Tests add about 60
// bytes.
const longest = 30

// New makes a folder in the machine's temporary folder, or in /tmp if that path is too long. The
// folder is removed when the test ends.
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
