// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// escapes are what a terminal or a reader can be deceived with: the clipboard, the screen, the
// direction of writing, a control character in one byte.
const escapes = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\u009b8m\u202e\u2066"

// hostileOutputs are commands that print what they read.
var hostileOutputs = [][]string{
	{"explain", "-A"}, {"explain", "-A", "-o", "yaml"}, {"explain", "-A", "-o", "json"},
	{"explain", "-A", "-o", "custom-columns=A:.subject.name,B:.refusals[0].summary"},
	{"allocate"}, {"allocate", "-o", "wide"}, {"allocate", "-o", "yaml"},
	{"devices"}, {"devices", "-o", "wide"}, {"devices", "-o", "json"}, {"devices", "-o", "name"},
	{"simulate", "fits"}, {"convert"},
}

// Every text of every kind, one by one, is made hostile. Whatever the commands print of it, or
// of the error that it is, has no character that controls a terminal.
func TestTextOfAClusterControlsNoTerminal(t *testing.T) {
	manifest, err := os.ReadFile("testdata/hostile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if out, status := runStatus(string(manifest), "dray", "explain", "-A", "-f", "-"); status == cli.ExitError {
		t.Fatalf("the manifest itself: %s", out)
	}
	file := filepath.Join(t.TempDir(), "hostile.yaml")
	shown := 0
	var documents []string // as JSON, which is read faster
	for _, document := range strings.Split(string(manifest), "\n---\n") {
		encoded, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(encoded))
	}
	for i, document := range documents {
		rest := strings.Join(slices.Concat(documents[:i], documents[i+1:]), "\n---\n")
		var object map[string]any
		if err := json.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		eachText(object, "", func(path string, set func(string)) {
			value := escapes
			if strings.HasSuffix(path, ".expression") {
				value = "device.driver == '" + escapes + "'"
			}
			set(value)
			encoded, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(rest+"\n---\n"+strings.ReplaceAll(string(encoded), "\u009b", `\u009b`)), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, arguments := range hostileOutputs {
				out, _ := runStatus("", append(append([]string{"dray"}, arguments...), "-f", file)...)
				if at := strings.IndexFunc(out, controls); at >= 0 {
					t.Fatalf("%v: %s %s: %q", arguments, object["kind"], path, out[max(0, at-60):min(len(out), at+40)])
				}
				if strings.Contains(out, "]52;c;") {
					shown++
				}
			}
		})
	}
	if shown < 500 {
		t.Errorf("hostile text was shown %d times: the manifest no longer reaches the output", shown)
	}
}

func controls(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// eachText calls change for every text and every key below a value, and puts each back.
func eachText(value any, path string, change func(path string, set func(string))) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			each := value[key]
			if text, isText := each.(string); isText {
				change(path+"."+key, func(hostile string) { value[key] = hostile })
				value[key] = text
				continue
			}
			eachText(each, path+"."+key, change)
			current := key
			change(path+".key:"+key, func(hostile string) { delete(value, current); value[hostile], current = each, hostile })
			delete(value, current)
			value[key] = each
		}
	case []any:
		for i, each := range value {
			if text, isText := each.(string); isText {
				change(path+"[]", func(hostile string) { value[i] = hostile })
				value[i] = text
				continue
			}
			eachText(each, path+"[]", change)
		}
	}
}
