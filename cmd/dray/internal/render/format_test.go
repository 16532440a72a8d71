// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
)

// The results are those of kubectl 1.32 for a ConfigMap with the same content, but for the line end.
func TestGoTemplate(t *testing.T) {
	value := map[string]any{"metadata": map[string]any{"name": "c"}, "data": map[string]any{"a": "aGk="}, "list": []any{"x"}}
	for text, want := range map[string]string{
		"{{.metadata.name}}":                    "c\n",
		"{{.metadata.name}}\n":                  "c\n",
		"{{.data.a | base64decode}}":            "hi\n",
		"{{.nope}} {{.nope.deeper}}":            "<no value> <no value>\n",
		`{{exists . "data" "a"}}`:               "true\n",
		`{{exists . "data" "b"}}`:               "false\n",
		`{{exists . "x" "y"}}`:                  "false\n",
		`{{exists .list 0}} {{exists .list 1}}`: "true false\n",
		`{{exists .data.a 0}} {{exists .data.a 9}} {{exists .data.a 0 0}}`: "true false false\n",
		`{{exists .metadata 0}}`: "false\n",
		"":                       "",
	} {
		var out strings.Builder
		if err := (Format{"go-template", text}).Write(&out, Document{Value: value}, true); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", text, out.String(), err, want)
		}
	}
	if _, err := ParseFormat("go-template={{.a"); err == nil || !strings.Contains(err.Error(), "unclosed action") {
		t.Errorf("a template that does not end: %v", err)
	}
	if err := (Format{"go-template", `{{base64decode "%%"}}`}).Write(&strings.Builder{}, Document{}, true); err == nil {
		t.Error("what is not base64 is decoded")
	}
}
