// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// An explanation of a refusal ends with the page that explains its phrases, once. What refuses nothing, and what
// programs read, does not name it.
func TestExplanationEndsWithGuide(t *testing.T) {
	for _, test := range []struct {
		name, command, manifest string
		want                    bool
	}{
		{"one pod", "explain pod/w", particulars + wanting("w", twoGPUs, ""), true},
		{"one pod, on one node", "explain pod/w --node b", particulars + wanting("w", twoGPUs, ""), true},
		{"pods with two reasons", "explain", particulars + wanting("w", twoGPUs, "") + wanting("v", nic, "nodeSelector: {zone: none},"), true},
		{"a node", "explain node/a", particulars + wanting("w", twoGPUs, ""), true},
		{"a node that others refuse", "explain pod/w", particulars + wanting("w", "{name: r, exactly: {deviceClassName: gpu}}", ""), true},
		{"pods of a group", "explain podgroup/gang", gangManifest(1, 3, 3, false), true},
		{"nothing refuses", "explain pod/w --node a", particulars + wanting("w", "{name: r, exactly: {deviceClassName: gpu}}", ""), false},
		{"all are placed", "explain", particulars + wanting("w", "{name: r, exactly: {deviceClassName: gpu}}", ""), false},
		{"nothing is pending", "explain", particulars, false},
		{"allocated already", "explain claim/held", particulars, false},
		{"JSON", "explain pod/w -o json", particulars + wanting("w", twoGPUs, ""), false},
		{"YAML of a list", "explain -o yaml", particulars + wanting("w", twoGPUs, ""), false},
		{"names", "explain pod/w -o name", particulars + wanting("w", twoGPUs, ""), false},
		{"a changed claim", "explain pod/w --patch", particulars + wanting("w", twoGPUs, ""), false},
	} {
		out, _ := runStatus(test.manifest, append(append([]string{"dray"}, strings.Fields(test.command)...), "-f", "-")...)
		if ends := strings.HasSuffix(out, "\nWhat this means: "+render.Guide+"\n"); ends != test.want {
			t.Errorf("%s: the page is at the end: %t, want %t, of\n%s", test.name, ends, test.want, out)
		}
		if test.want && strings.Count(out, render.Guide) != 1 || !test.want && strings.Contains(out, render.Guide) {
			t.Errorf("%s: the page is named %d times in\n%s", test.name, strings.Count(out, render.Guide), out)
		}
	}
	_, page, found := strings.Cut(render.Guide, "/blob/main/")
	if _, err := os.Stat(filepath.Join(repository, page)); !found || err != nil {
		t.Errorf("%s: %v", render.Guide, err)
	}
}
