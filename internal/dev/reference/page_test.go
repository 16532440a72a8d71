// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../../.."

var path = filepath.Join(root, "docs/reference.md")

var rewrite = flag.Bool("rewrite", false, "write docs/reference.md anew")

// TestPage compares the page with the code.
func TestPage(t *testing.T) {
	scheduler, err := Load(filepath.Join(root, "schedplugin"))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := Load(filepath.Join(root, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	if err := yaml.UnmarshalStrict(text, &events); err != nil {
		t.Fatal(err)
	}
	page, faults := Page(scheduler, agent, events)
	for _, fault := range faults {
		t.Error(fault)
	}
	for what, found := range map[string]int{
		"metrics of the scheduler": len(scheduler.Metrics()), "metrics of the agent": len(agent.Metrics()),
		"fields of DrayArgs": len(scheduler.Fields("DrayArgs")), "fields of Switches": len(scheduler.Fields("Switches")),
	} {
		if found < 2 {
			t.Errorf("%d %s", found, what)
		}
	}
	if strings.Contains(page, "|  |\n") {
		t.Error("a row has no meaning")
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page {
		t.Error("docs/reference.md is not what the code says: go test ./internal/dev/reference -rewrite")
	}
}

const sample = `// Package sample has one of each.
package sample

const part, gone = "shop", "Gone"

// Args are arguments.
type Args struct {
	// Size is how large it is.
	Size *int32 ` + "`json:\"size,omitempty\"`" + `
	// More is a group.
	More *Inner ` + "`json:\"more\"`" + `
}

// Inner is within.
type Inner struct {
	// Names says who.
	Names []string ` + "`json:\"names\"`" + `
}

var sold = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: part, Name: "sold_total", Help: "Things sold."}, []string{"kind"})

func tell(r recorder) {
	reason := "Late"
	if r == nil {
		reason = "Later"
	}
	r.Event(nil, "Normal", gone, "it is gone")
	r.Eventf(nil, nil, "Warning", reason, "Waiting", "%s", "it is late")
}
`

func TestSource(t *testing.T) {
	folder := t.TempDir()
	if _, err := Load(folder); err == nil || !strings.Contains(err.Error(), "no Go files") {
		t.Errorf("error %v of an empty folder", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "sample.go"), []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Metrics(); len(got) != 1 || got[0].Name != "shop_sold_total" || got[0].Kind != "counter" || !slices.Equal(got[0].Labels, []string{"kind"}) {
		t.Errorf("metrics %+v", got)
	}
	if got := s.Reasons(); !slices.Equal(got, []string{"Gone", "Late", "Later"}) {
		t.Errorf("reasons %q", got)
	}
	want := []Field{{"size", "int32", "how large it is."}, {"more.names", "list of string", "says who."}}
	if got := s.Fields("Args"); !slices.Equal(got, want) {
		t.Errorf("fields %+v", got)
	}
	faults := compareReasons(s.Reasons(), []Event{{Reason: "Gone", From: "a", About: "b", Type: "Normal", Meaning: "c"}, {Reason: "Early"}})
	if len(faults) != 4 {
		t.Errorf("faults %q", faults)
	}
}
