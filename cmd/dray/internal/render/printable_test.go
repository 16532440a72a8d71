// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"model == \"H100\" && größer µ": "model == \"H100\" && größer µ",
		"a\nb\tc\r":                     "a b c ",
		"\x1b]52;c;aGk=\x07":            `\x1b]52;c;aGk=\x07`,
		"\u009b2J\x7f":                  `\u009b2J\x7f`,
		"a\u202eb\u2066\u200b\ufeff":    `a\u202eb\u2066\u200b\ufeff`,
		"\U000e0041":                    `\U000e0041`,
		"\xff\ufffd":                    `\xff\ufffd`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// hostile makes texts of which some control terminals.
func hostile() *rapid.Generator[string] {
	return rapid.StringOf(rapid.SampledFrom([]rune("ab0: -#'\"\\\n\t\x00\x1b\x7f\u0085\u009b\u00a0\u2028\u200e\u202e\u2066\ufeff\ufffd\U000e0041\U0001f600")))
}

// Whatever a document says: it has nothing that controls a terminal, and readers of it get
// what was said.
func TestDocumentsSayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{"list": []any{hostile().Draw(t, "first"), map[string]any{hostile().Draw(t, "key"): hostile().Draw(t, "value")}, 12.0, true, nil}}
		for name, read := range map[string]func([]byte, *any) error{
			"json": func(encoded []byte, into *any) error { return json.Unmarshal(encoded, into) },
			"yaml": func(encoded []byte, into *any) error { return yaml.Unmarshal(encoded, into) },
		} {
			var out strings.Builder
			if err := (Format{name: name}).Write(&out, Document{Value: value}, true); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && r != '\ufffd' && unsafe(r) }) {
				t.Fatalf("%s: %q", name, out.String())
			}
			var got any
			if err := read([]byte(out.String()), &got); err != nil {
				t.Fatalf("%s: %v in %q", name, err, out.String())
			}
			if !reflect.DeepEqual(got, any(value)) {
				t.Fatalf("%s: %q means %q, want %q", name, out.String(), got, value)
			}
		}
	})
}

// Text folded in several styles has the words of all, and colours only of ours.
func TestStylesEndWhereTheyShould(t *testing.T) {
	var out strings.Builder
	terminal := &Terminal{Out: &out, Width: 80, Colour: true}
	terminal.spans(0, 2, heading("Pod a/\x1b[31mb"), bad(" is not placed: "), plain("no\u202e node"))
	want := "\x1b[1mPod\x1b[0m \x1b[1ma/\\x1b[31mb\x1b[0m \x1b[31mis\x1b[0m \x1b[31mnot\x1b[0m \x1b[31mplaced:\x1b[0m no\\u202e node\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}
