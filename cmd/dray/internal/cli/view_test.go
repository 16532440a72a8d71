// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// Other machines get the page only with TLS and a token.
func TestViewFlags(t *testing.T) {
	atRepository(t)
	short := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		"--address 0.0.0.0:0":                      "--address 0.0.0.0:0: others than this machine need --tls-cert-file, --tls-private-key-file and --token-file",
		"--tls-cert-file c --tls-private-key-file": "flag needs an argument",
		"--tls-cert-file c":                        "--tls-cert-file and --tls-private-key-file are for --address, which is missing",
		"--token-file " + short:                    "want at least 16 letters, digits, - or _",
		"--token-file no-such":                     "--token-file: open no-such",
		"some":                                     "has no arguments",
		"-o no-such/view.html":                     "--output: open no-such/view.html",
	} {
		out, status := runStatus("", append([]string{"dray", "view", "-f", "examples/single-gpu"}, strings.Fields(arguments)...)...)
		if status != cli.ExitError || !strings.Contains(out, want) {
			t.Errorf("%s: status %d: %s, want %q", arguments, status, out, want)
		}
	}
}

// The page as a file, and the drawing, have each device.
func TestViewWritten(t *testing.T) {
	atRepository(t)
	page, status := standardOutput("dray", "view", "-f", "examples/mig-partitions", "-o", "-")
	if status != cli.ExitOK || !strings.Contains(page, "gpu-1-7g-80gb-0") || !strings.HasPrefix(page, "<!doctype html>") {
		t.Errorf("status %d, %d bytes", status, len(page))
	}
	drawing, status := standardOutput("dray", "devices", "-f", "examples/mig-partitions", "-o", "svg")
	devices, _ := standardOutput("dray", "devices", "-f", "examples/mig-partitions", "-o", "name")
	if got, want := strings.Count(drawing, "</use>"), strings.Count(devices, "\n"); status != cli.ExitOK || got != want {
		t.Errorf("status %d, %d devices in the drawing, want %d", status, got, want)
	}
	if err := xml.Unmarshal([]byte(drawing), new(struct{ XMLName xml.Name })); err != nil {
		t.Error(err)
	}
	if out, status := runStatus("", "dray", "devices", "-f", "examples/mig-partitions", "-o", "svg", "--free"); status != cli.ExitError || !strings.Contains(out, "it goes without") {
		t.Errorf("status %d: %s", status, out)
	}
}

// Flags choose among what waits, as they do for dray explain.
func TestViewSelection(t *testing.T) {
	atRepository(t)
	for flags, want := range map[string][]string{
		"-A":                       {"notebooks", "serving", "training"},
		"-n training":              {"training"},
		"-n serving":               {"serving"},
		"-n training -l no-such=1": nil,
		"--field-selector metadata.name=pretrain-0 -A": {"training"},
	} {
		page, status := standardOutput(append([]string{"dray", "view", "-f", "examples/fleet-200", "-o", "-"}, strings.Fields(flags)...)...)
		_, kept, _ := strings.Cut(page, `<script type="application/json" id="kept">`)
		kept, _, _ = strings.Cut(kept, "</script>")
		var content struct {
			Picture struct{ Waiting []struct{ Namespace string } }
		}
		if err := json.Unmarshal([]byte(kept), &content); err != nil || status != cli.ExitOK {
			t.Errorf("%s: status %d, %v", flags, status, err)
		}
		var namespaces []string
		for _, w := range content.Picture.Waiting {
			namespaces = append(namespaces, w.Namespace)
		}
		slices.Sort(namespaces)
		if namespaces = slices.Compact(namespaces); !slices.Equal(namespaces, want) {
			t.Errorf("%s: what waits is of %q, want %q", flags, namespaces, want)
		}
	}
}
