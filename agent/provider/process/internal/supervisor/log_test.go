// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// textOf is what a log has, without the times.
func textOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(content)) {
		_, rest, _ := strings.Cut(line, " ")
		out.WriteString(rest)
	}
	return out.String()
}

// TestOldLogs: those of the two latest starts stay, and no other, with all that was rotated.
func TestOldLogs(t *testing.T) {
	folder := t.TempDir()
	for restarts := range int32(4) {
		l, err := openLog(folder, restarts)
		if err != nil {
			t.Fatal(err)
		}
		for range maxLogFiles + 1 {
			l.add("stdout", 'F', []byte("x"))
			if err := l.rotate(); err != nil {
				t.Fatal(err)
			}
		}
		l.close()
	}
	found, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, start := range []string{"2.log", "3.log"} {
		want = append(want, filepath.Join(folder, start))
		for _, times := range []string{"1", "2", "3", "4"} {
			want = append(want, filepath.Join(folder, start+"."+times))
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("files %q, want %q", found, want)
	}
}

// TestLines: a long line is written in parts, and the last one is whole without its end.
func TestLines(t *testing.T) {
	l, err := openLog(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	stream := l.stream("stderr")
	long := strings.Repeat("y", maxLine)
	for _, part := range []string{"a\nb", "c\n", long[1:], "zz\n", "last"} {
		if n, err := stream.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	want := "stderr F a\nstderr F bc\nstderr P " + long[1:] + "z\nstderr F z\n"
	if got := textOf(t, l.path); got != want {
		t.Errorf("the log has %.200q, want %.200q", got, want)
	}
	stream.flush()
	if got := textOf(t, l.path); got != want+"stderr F last\n" {
		t.Errorf("the log has %.200q at the end", got)
	}
}
