// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sockets_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/internal/sockets"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// TestCheckPath: the kernel agrees.
func TestCheckPath(t *testing.T) {
	dir := shortdir.New(t)
	for length, fits := range map[int]bool{107: true, 108: false, 200: false} {
		path := filepath.Join(dir, strings.Repeat("s", length-len(dir)-1))
		listener, err := net.Listen("unix", path)
		if err == nil {
			_ = listener.Close()
		}
		checked := sockets.CheckPath(path)
		if (err == nil) != fits || (checked == nil) != fits {
			t.Errorf("a path of %d bytes: listen says %v, and CheckPath %v", len(path), err, checked)
		}
		if checked != nil && !strings.Contains(checked.Error(), path) {
			t.Errorf("%v does not name the path", checked)
		}
	}
}

// TestLongTemporaryFolder: tests have sockets even if the machine's temporary folder is deep.
func TestLongTemporaryFolder(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp/"+strings.Repeat("deep/", 20))
	if dir := shortdir.New(t); len(dir) > 40 {
		t.Errorf("the folder is %s", dir)
	}
}
