// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// watched is an API server that sends objects to watches, then what events has, and nothing else.
type watched struct {
	*apiServer
	events map[string]chan map[string]any // by path
}

func (s *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	objects, known := s.objects[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	if !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.URL.Query().Get("watch") == "" {
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": objects})
		return
	}
	send := func(kind string, object map[string]any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		_ = http.NewResponseController(w).Flush()
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, object := range objects {
			send("ADDED", object)
		}
		send("BOOKMARK", map[string]any{
			"kind": kindAt(r.URL.Path), "apiVersion": versionAt(r.URL.Path),
			"metadata": map[string]any{"resourceVersion": "1", "annotations": map[string]any{"k8s.io/initial-events-end": "true"}},
		})
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case object := <-s.events[r.URL.Path]:
			send("ADDED", object)
		case <-r.Context().Done():
			return
		}
	}
}

func kindAt(path string) string {
	for kind, p := range paths {
		if p == path {
			return kind
		}
	}
	return ""
}

// versionAt is /api/v1/... or /apis/GROUP/VERSION/...
func versionAt(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[2:len(parts)-1], "/")
}

// message reads the next message of a stream of server-sent events.
func message(t *testing.T, stream *bufio.Reader) string {
	t.Helper()
	var text string
	for {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\n" && text != "" {
			return text
		}
		if !strings.HasPrefix(line, ":") {
			text += line
		}
	}
}

// TestViewFollows tells the page whether the cluster is followed, and sends it what changes there.
func TestViewFollows(t *testing.T) {
	atRepository(t)
	for source, want := range map[string]string{
		"cluster": `event: status` + "\n" + `data: {"lost":"","live":true}`,
		"files":   `event: status` + "\n" + `data: {"lost":"","live":false}`,
	} {
		t.Run(source, func(t *testing.T) {
			listed, _ := serve(t, "examples/single-gpu")
			api := &watched{apiServer: listed, events: map[string]chan map[string]any{paths["Node"]: make(chan map[string]any)}}
			server := httptest.NewServer(api)
			defer server.Close()
			arguments := []string{"dray", "view", "--open=false", "-f", "examples/single-gpu"}
			if source == "cluster" {
				arguments = []string{"dray", "view", "--open=false", "--server", server.URL}
			}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			output, out := io.Pipe()
			ended := make(chan int, 1)
			var told strings.Builder
			go func() {
				ended <- cli.Main(ctx, arguments, cli.Streams{In: strings.NewReader(""), Out: out, Err: &told})
				_ = out.Close()
			}()
			address, err := bufio.NewReader(output).ReadString('\n')
			if err != nil {
				t.Fatalf("%v: exit status %d, %s", err, <-ended, told.String())
			}
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Jar: jar}
			defer client.CloseIdleConnections()
			address, token, _ := strings.Cut(strings.TrimSpace(address), "/?")
			fetch := func(path string) *bufio.Reader {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = answer.Body.Close() })
				return bufio.NewReader(answer.Body)
			}
			fetch("/?" + token) // which sets a cookie
			events := fetch("/api/events")
			if got := message(t, events); !strings.HasPrefix(got, want) {
				t.Errorf("the page is told %q, want %q", got, want)
			}
			if got := message(t, events); !strings.HasPrefix(got, "event: whole\n") {
				t.Errorf("the page is told %q, want to read the picture", got)
			}
			if source == "cluster" {
				api.events[paths["Node"]] <- map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "added", "uid": "added", "resourceVersion": "2"}}
				if got := message(t, events); !strings.HasPrefix(got, "event: delta\n") || !strings.Contains(got, `"added"`) {
					t.Errorf("of a new node the page is told %q", got)
				}
			}
			interrupt()
			if status := <-ended; status != cli.ExitOK {
				t.Error(fmt.Errorf("exit status %d: %s", status, told.String()))
			}
		})
	}
}
