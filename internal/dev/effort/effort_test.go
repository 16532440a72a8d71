// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package effort

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// recorder is a test that notes how it fails.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Errorf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

// TestFuses compares with what the same operations give if each is rounded.
func TestFuses(t *testing.T) {
	if product := 1 - 1.0/(1<<30); fuses() != (multiplyAndAdd(product, product, -1) != float64(product*product)-1) {
		t.Errorf("fuses: %t", fuses())
	}
}

// TestCompare writes a file, and compares other counts with it.
func TestCompare(t *testing.T) {
	t.Chdir(t.TempDir())
	looks := func(counts Counts, name string, n int) {
		counts.Of(t.Context(), name, func(ctx context.Context) {
			for range n {
				if ctx.Err() != nil {
					t.Error(ctx.Err())
				}
			}
		})
	}
	counts := make(Counts)
	looks(counts, "b", 2)
	looks(counts, "a", 1)
	looks(counts, "b", 3)
	rewriting := func(value string) {
		if err := flag.Set("rewrite", value); err != nil {
			t.Fatal(err)
		}
	}
	before := flag.Lookup("rewrite").Value.String()
	defer rewriting(before)
	rewriting("true")
	counts.compare(t)
	rewriting("false")
	if text, err := os.ReadFile("testdata/effort.txt"); err != nil || string(text) != "a: 1\nb: 5\n" {
		t.Errorf("wrote %q, %v", text, err)
	}
	counts.compare(t)
	r := &recorder{TB: t}
	looks(counts, "a", 1)
	if counts.compare(r); !strings.Contains(r.failed, "got:\na: 2\nb: 5\nwant:\na: 1\nb: 5\n") {
		t.Errorf("failed with %q", r.failed)
	}
}
