// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
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

// TestTermination: the message of a container that failed is the end of its log, of both streams, as kubelet
// cuts it.
func TestTermination(t *testing.T) {
	const many = 100
	numbered := func(from int) string {
		var out strings.Builder
		for i := from; i < many; i++ {
			fmt.Fprintf(&out, "%d\n", i)
		}
		return out.String()
	}
	long := strings.Repeat("é", maxTermination/2)
	for name, c := range map[string]struct{ wrote, want string }{
		"nothing":                {},
		"a line without its end": {"first\nlast", "first\nlast"},
		"many lines":             {numbered(0), numbered(many - maxTerminationLines)},
		"many bytes":             {"x" + long + "\n", "\uFFFD" + long[2:] + "\n"},
		"no text":                {"a\xffb\n", "a\uFFFDb\n"},
		"a line in parts":        {strings.Repeat("a", maxLine) + "bc", strings.Repeat("a", maxTermination-2) + "bc"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := openLog(t.TempDir(), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			for i, text := range strings.SplitAfter(c.wrote, "\n") {
				stream := l.stream([]string{"stdout", "stderr"}[i%2])
				if _, err := stream.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				stream.flush()
			}
			if got := l.termination(); got != c.want {
				t.Errorf("%.300q, want %.300q", got, c.want)
			}
		})
	}
}

// TestLines writes what containerd 2.4.2 was seen to write for the same output: a long line in parts,
// one of the maximum whole, and the last one incomplete.
func TestLines(t *testing.T) {
	l, err := openLog(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	stream := l.stream("stderr")
	most := strings.Repeat("y", maxLine)
	for _, part := range []string{"a\nb", "c\n", most, "\n", most, "zz\n", "d\r\n\r\n\r\r\ne\rf\n", "last\r"} {
		if n, err := stream.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	want := []string{"F a", "F bc", "F " + most, "P " + most, "F zz", "F d", "F ", "F \r", "F e\rf"}
	lines := func() []string { return strings.Split(strings.TrimSuffix(textOf(t, l.path), "\n"), "\n") }
	for i := range want {
		want[i] = "stderr " + want[i]
	}
	if got := lines(); !slices.Equal(got, want) {
		t.Errorf("the log has %.300q, want %.300q", got, want)
	}
	stream.flush()
	if got := lines(); !slices.Equal(got, append(want, "stderr P last\r")) {
		t.Errorf("the log has %.300q at the end", got)
	}
}
