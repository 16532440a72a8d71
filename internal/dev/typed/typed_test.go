// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What does not have the right type is an error, and what the standard library imports from its own copies is found.
func TestCheck(t *testing.T) {
	const right = "package p\n\nimport \"net/http\"\n\nvar Status = http.StatusOK\n\nfunc Double(n int) int { return 2 * n }\n"
	for text, want := range map[string]string{
		right: "",
		strings.Replace(right, "StatusOK", "StatusFine", 1): "undefined: http.StatusFine",
		strings.Replace(right, "2 * n", "\"two\"", 1):       "cannot use \"two\"",
		strings.Replace(right, "var Status", "var 2", 1):    "expected",
	} {
		folder := t.TempDir()
		for name, content := range map[string]string{"go.mod": "module example.com/p\n\ngo 1.26\n", "p.go": text} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Check(t.Context(), folder, "./...")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q for\n%s", err, want, text)
		}
	}
}
