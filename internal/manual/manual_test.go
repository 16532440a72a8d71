// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestCommand(t *testing.T) {
	root := &cobra.Command{
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Use:               "tool", Short: "Do something", Run: func(*cobra.Command, []string) {},
	}
	root.AddCommand(&cobra.Command{Use: "ask", Short: "Ask something", Run: func(*cobra.Command, []string) {}}, NewCommand())
	folder := t.TempDir()
	root.SetArgs([]string{"man", folder})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadDir(folder)
	if err != nil || len(pages) != 2 {
		t.Fatalf("pages %v, error %v", pages, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "tool-ask.1"))
	if err != nil || !strings.Contains(string(text), `.TH "TOOL" "1" "Jan 1970" "Dray"`) || !strings.Contains(string(text), "Ask something") {
		t.Errorf("error %v, page\n%s", err, text)
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs([]string{"man", filepath.Join(folder, "missing")})
	if err := root.Execute(); err == nil || !strings.HasPrefix(err.Error(), "manual pages: ") {
		t.Errorf("error %v", err)
	}
}
