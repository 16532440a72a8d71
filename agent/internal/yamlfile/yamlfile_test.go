// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package yamlfile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/yamlfile"
)

type common struct {
	Label string `json:"label,omitempty"`
}

type sample struct {
	common `json:",inline"`
	// Names are text, whatever they look like.
	Names  []string                     `json:"names,omitempty"`
	Count  int                          `json:"count,omitempty"`
	On     bool                         `json:"on,omitempty"`
	Limit  *int64                       `json:"limit,omitempty"`
	Room   map[string]resource.Quantity `json:"room,omitempty"`
	After  metav1.Duration              `json:"after,omitempty"`
	Parts  []sample                     `json:"parts,omitempty"`
	Hidden string                       `json:"-"`
}

func read(t *testing.T, text string) (sample, *yamlfile.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out sample
	file, err := yamlfile.Read(path, &out)
	return out, file, err
}

func TestRead(t *testing.T) {
	got, _, err := read(t, `
label: x
names: [570.10, "two", true]
count: 3
on: true
limit: 0
room: {memory: 141Gi, cpu: 1.5, pods: 110}
after: 90s
parts: &parts
- {label: a}
- label: b
  count: null
`)
	want := sample{
		common: common{"x"}, Names: []string{"570.10", "two", "true"}, Count: 3, On: true, Limit: ptr.To(int64(0)),
		Room:  map[string]resource.Quantity{"memory": resource.MustParse("141Gi"), "cpu": resource.MustParse("1.5"), "pods": resource.MustParse("110")},
		After: metav1.Duration{Duration: 90 * time.Second}, Parts: []sample{{common: common{"a"}}, {common: common{"b"}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if got, _, err := read(t, "parts:\n- names: &n [a]\n- names: *n\n"); err != nil || got.Parts[1].Names[0] != "a" {
		t.Errorf("an alias: got %+v, %v", got, err)
	}
	if got, _, err := read(t, "# nothing\n"); err != nil || !reflect.DeepEqual(got, sample{}) {
		t.Errorf("an empty file: got %+v, %v", got, err)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"count: 1\nparts:\n- {label: a}\n- labels: b\n": "f.yaml:4: parts[1].labels: no such field",
		"Count: 1\n":                        "f.yaml:1: Count: no such field: count is meant?",
		"Hidden: 1\n":                       "f.yaml:1: Hidden: no such field",
		"\ncount: many\n":                   `f.yaml:2: count: "many": a whole number is wanted`,
		"count: 1.5\n":                      `f.yaml:1: count: "1.5": a whole number is wanted`,
		"on: [1]\n":                         "f.yaml:1: on: true or false is wanted",
		"room:\n  cpu: 1\n  memory: lots\n": `f.yaml:3: room.memory: "lots": quantities must match`,
		"after: 5\n":                        `f.yaml:1: after: "5": time: missing unit`,
		"names: a\n":                        "f.yaml:1: names: a list is wanted",
		"parts: [a]\n":                      "f.yaml:1: parts[0]: fields are wanted",
		"- a\n":                             "f.yaml:1: fields are wanted",
		"count: 1\nlabel: a\ncount: 2\n":    "f.yaml:3: count: is there twice",
		"? [a]\n: b\n":                      "f.yaml:1: a key must be a word",
		"parts:\n- &a {label: x}\n- {<<: *a, count: 1}\n": "f.yaml:3: parts[1].<<: not supported",
		"label: [\n":                "f.yaml:",
		"label: {\n":                "not valid YAML",
		"label: a\n---\nlabel: b\n": "f.yaml: there is a second document",
		"label: &a [*a]\n":          "f.yaml:1: label: text is wanted",
		"parts: &a\n- parts: *a\n":  "more than 64 in each other",
		"label: a\n\tcount: 1\n":    "f.yaml:2: not valid YAML",
	} {
		if _, _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", text, err, want)
		}
	}
	_, _, err := read(t, strings.Repeat("? x\n: 1\n", 100))
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 10 {
		t.Errorf("%d mistakes are told of:\n%v", lines, err)
	}
	if _, err := yamlfile.Read(filepath.Join(t.TempDir(), "none"), &sample{}); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// TestAliases has 2^24 values in a file of 25 lines.
func TestAliases(t *testing.T) {
	text := "parts:\n- parts: &a0 [{label: x}, {label: x}]\n"
	for i := range 24 {
		text += "- parts: &a" + string(rune('A'+i)) + " [{parts: *" + name(i) + "}, {parts: *" + name(i) + "}]\n"
	}
	began := time.Now()
	_, _, err := read(t, text)
	if err == nil || !strings.Contains(err.Error(), "more than 131072 values") || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

func name(i int) string {
	if i == 0 {
		return "a0"
	}
	return "a" + string(rune('A'+i-1))
}

func TestErrorf(t *testing.T) {
	_, file, err := read(t, "count: 1\nparts:\n- label: a\n- label: b\n  names:\n  - c\n")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"parts[1].label":    "f.yaml:4: parts[1].label: is 7",
		"parts[1].names[0]": "f.yaml:6: parts[1].names[0]: is 7",
		"parts[1].room.cpu": "f.yaml:4: parts[1].room.cpu: is 7",
		"parts[5]":          "f.yaml:2: parts[5]: is 7",
		"limit":             "f.yaml: limit: is 7",
		"":                  "f.yaml: is 7",
	} {
		if got := file.Errorf(field, "is %d", 7).Error(); !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
