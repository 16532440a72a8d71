// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/cookiejar"
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
	// A cluster that does not answer is not asked.
	for _, flag := range []string{"--free", "--watch", "--node=node-0", "--driver=gpu.example.com"} {
		if out, status := runStatus("", "dray", "devices", "--server", "http://127.0.0.1:1", "-o", "svg", flag); status != cli.ExitError || !strings.Contains(out, "it goes without") {
			t.Errorf("%s: status %d:\n%s", flag, status, out)
		}
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

// TestViewServes prints the address of the page, with the token of the file, and serves it until it is interrupted.
func TestViewServes(t *testing.T) {
	atRepository(t)
	token := "Abcdefghi_-234567"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	output, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, []string{"dray", "view", "-f", "examples/single-gpu", "--open=false", "--token-file", file}, cli.Streams{In: strings.NewReader(""), Out: out, Err: io.Discard})
		_ = out.Close()
	}()
	address, err := bufio.NewReader(output).ReadString('\n')
	if address = strings.TrimSpace(address); err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") || !strings.HasSuffix(address, "/?token="+token) {
		t.Fatalf("the address is %q, %v", address, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		address string
		code    int
		want    string
	}{
		{strings.Replace(address, token, "x", 1), http.StatusUnauthorized, "the token is missing or wrong"},
		{address, http.StatusOK, "<html"},
		{strings.Replace(address, "/?token="+token, "/api/picture", 1), http.StatusOK, "examples/single-gpu"},
	} {
		answer, err := client.Get(c.address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: status %d, %v, want %d and %q in:\n%.500s", c.address, answer.StatusCode, err, c.code, c.want, body)
		}
	}
	interrupt()
	if status := <-ended; status != cli.ExitOK {
		t.Errorf("exit status %d", status)
	}
}
