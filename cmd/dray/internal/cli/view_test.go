package cli_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// Who is not on this machine gets the page with TLS and a token only.
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
