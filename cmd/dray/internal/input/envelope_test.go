// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"strings"
	"testing"
)

// The type of an object does not depend on where its apiVersion and kind stand, or how they are written.
func TestEnvelopeAnywhere(t *testing.T) {
	for name, test := range map[string]struct{ manifest, err string }{
		"first":           {`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}`, ""},
		"other order":     {`{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}`, ""},
		"last":            {`{"metadata": {"name": "n"}, "kind": "Node", "apiVersion": "v1"}`, ""},
		"apart":           {`{"apiVersion": "v1", "metadata": {"name": "n", "labels": {"kind": "Pod"}}, "kind": "Node"}`, ""},
		"escaped":         {`{"\u0061piVersion": "v1", "k\u0069nd": "N\u006fde", "metadata": {"name": "n"}}`, ""},
		"list":            {`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]}`, ""},
		"list, kind last": {`{"items": [{"metadata": {"name": "n"}, "kind": "Node", "apiVersion": "v1"}], "kind": "List", "apiVersion": "v1"}`, ""},
		"typed list":      {`{"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}}]}`, ""},
		"two documents":   {`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}} {"apiVersion": "v1", "kind": "Secret"}`, ""},
		"twice":           {`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "kind": "Pod"}`, `Node n: duplicate field "kind"`},
		"twice, unknown":  {`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n"}, "kind": "Node"}`, `Node n: duplicate field "kind"`},
		"no text":         {`{"apiVersion": "v1", "kind": 7, "metadata": {"name": "n"}}`, "kind: want string, got number"},
		"empty":           {`{"apiVersion": "", "kind": "Node", "metadata": {"name": "n"}}`, "apiVersion: required"},
		"no object":       {`[{"apiVersion": "v1", "kind": "Node"}]`, "want a Kubernetes object"},
	} {
		objects, err := Read([]string{Stdin}, strings.NewReader(test.manifest), Options{})
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: error %v, want %s", name, err, test.err)
		case test.err == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.err == "" && (len(objects.Nodes) != 1 || objects.Nodes[0].Name != "n"):
			t.Errorf("%s: %d nodes", name, len(objects.Nodes))
		}
	}
}
