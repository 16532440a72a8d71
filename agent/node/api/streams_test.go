// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/utils/exec"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/node/api"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const container = "/ns/pod/main"

// commands runs what tests ask for.
type commands struct {
	ended chan struct{} // tells each end of a context of a command that waits
}

func (c *commands) run(ctx context.Context, namespace, pod, container string, cmd []string, streams api.AttachIO) error {
	switch cmd[0] {
	case "echo":
		fmt.Fprintf(streams.Stderr(), "%s/%s/%s %q", namespace, pod, container, cmd)
		_, err := io.Copy(streams.Stdout(), streams.Stdin())
		return err
	case "sizes":
		for range 2 {
			size := <-streams.Resize()
			fmt.Fprintf(streams.Stdout(), "%dx%d ", size.Width, size.Height)
		}
		return nil
	case "exit":
		return fmt.Errorf("a command: %w", exec.CommandContext(ctx, "sh", "-c", "exit "+cmd[1]).Run())
	case "code":
		return fmt.Errorf("a command: %w", utilexec.CodeExitError{Err: errors.New("failed"), Code: 7})
	case "wait":
		fmt.Fprint(streams.Stdout(), "waiting")
		<-ctx.Done()
		c.ended <- struct{}{}
		return nil
	}
	return errors.New("no such command")
}

func serve(t *testing.T, config api.PodHandlerConfig) string {
	t.Helper()
	mux := http.NewServeMux()
	api.AttachPodRoutes(config, mux, true)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// stream asks for streams as the API server does.
func stream(ctx context.Context, server, path string, query url.Values, options remotecommand.StreamOptions) error {
	for parameter, wanted := range map[string]bool{"input": options.Stdin != nil, "output": options.Stdout != nil, "error": options.Stderr != nil, "tty": options.Tty} {
		if wanted {
			query.Set(parameter, "1")
		}
	}
	target, err := url.Parse(server + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: server}, http.MethodPost, target)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, options)
}

type sizes chan *remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize { return <-s }

func TestExec(t *testing.T) {
	server := serve(t, api.PodHandlerConfig{RunInContainer: (&commands{}).run})
	var out, failures bytes.Buffer
	command := url.Values{"command": {"echo", "a b", ""}}
	err := stream(t.Context(), server, "/exec"+container, command, remotecommand.StreamOptions{Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &failures})
	if err != nil || out.String() != "input" || failures.String() != `ns/pod/main ["echo" "a b" ""]` {
		t.Errorf("%v, %q, %q", err, &out, &failures)
	}

	out.Reset()
	queue := make(sizes, 3)
	queue <- &remotecommand.TerminalSize{Width: 80, Height: 25}
	queue <- &remotecommand.TerminalSize{Width: 100, Height: 40}
	queue <- nil
	err = stream(t.Context(), server, "/exec"+container, url.Values{"command": {"sizes"}}, remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: queue})
	if err != nil || out.String() != "80x25 100x40 " {
		t.Errorf("%v, %q", err, &out)
	}

	err = stream(t.Context(), server, "/exec"+container, url.Values{"command": {"nothing"}}, remotecommand.StreamOptions{Stdout: &out})
	if err == nil || !strings.Contains(err.Error(), "no such command") {
		t.Errorf("an unknown command: %v", err)
	}
}

// TestExitCodes are told by exec and by attach, whoever's error has them.
func TestExitCodes(t *testing.T) {
	attach := func(ctx context.Context, namespace, pod, container string, streams api.AttachIO) error {
		return (&commands{}).run(ctx, namespace, pod, container, []string{"code"}, streams)
	}
	server := serve(t, api.PodHandlerConfig{RunInContainer: (&commands{}).run, AttachToContainer: attach})
	for _, c := range []struct {
		path    string
		command []string
		want    int
	}{
		{"/exec" + container, []string{"exit", "3"}, 3},
		{"/exec" + container, []string{"code"}, 7},
		{"/attach" + container, nil, 7},
	} {
		var out bytes.Buffer
		err := stream(t.Context(), server, c.path, url.Values{"command": c.command}, remotecommand.StreamOptions{Stdout: &out})
		var code utilexec.ExitError
		if !errors.As(err, &code) || code.ExitStatus() != c.want {
			t.Errorf("%s %q: %v, want exit code %d", c.path, c.command, err, c.want)
		}
	}
}

// TestClientIsGone ends the context of a command that neither reads nor writes.
func TestClientIsGone(t *testing.T) {
	t.Run("SPDY", func(t *testing.T) {
		c := &commands{ended: make(chan struct{}, 1)}
		server := serve(t, api.PodHandlerConfig{RunInContainer: c.run})
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		go func() {
			_ = stream(ctx, server, "/exec"+container, url.Values{"command": {"wait"}}, remotecommand.StreamOptions{Stdout: writer})
		}()
		awaitText(t, reader, "waiting")
		cancel()
		awaitEnd(t, c.ended)
	})
	for name, end := range map[string]func(*websocket.Conn, net.Conn) error{
		"WebSocket": func(socket *websocket.Conn, _ net.Conn) error { return socket.Close() },
		"TCP":       func(_ *websocket.Conn, conn net.Conn) error { return conn.Close() }, // without a word
	} {
		t.Run(name, func(t *testing.T) {
			c := &commands{ended: make(chan struct{}, 1)}
			server := strings.TrimPrefix(serve(t, api.PodHandlerConfig{RunInContainer: c.run}), "http://")
			config, err := websocket.NewConfig("ws://"+server+"/exec"+container+"?output=1&command=wait", "http://"+server)
			if err != nil {
				t.Fatal(err)
			}
			config.Protocol = []string{"v4.channel.k8s.io"}
			conn, err := net.Dial("tcp", server)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			socket, err := websocket.NewClient(config, conn)
			if err != nil {
				t.Fatal(err)
			}
			awaitText(t, socket, "waiting")
			if err := end(socket, conn); err != nil {
				t.Error(err)
			}
			awaitEnd(t, c.ended)
		})
	}
}

func awaitText(t *testing.T, from io.Reader, want string) {
	t.Helper()
	var text string
	for part := make([]byte, 100); !strings.Contains(text, want); {
		n, err := from.Read(part)
		if err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		text += string(part[:n])
	}
}

func awaitEnd(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the command is not told that its client is gone")
	}
}

func TestPortForward(t *testing.T) {
	forward := func(_ context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
		fmt.Fprintf(stream, "%s/%s:%d ", namespace, pod, port)
		_, err := io.Copy(stream, io.LimitReader(stream, 5))
		return errors.Join(err, stream.Close())
	}
	server := serve(t, api.PodHandlerConfig{PortForward: forward})
	target, err := url.Parse(server + "/portForward/ns/pod")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server})
	if err != nil {
		t.Fatal(err)
	}
	ready, end := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	forwarder, err := portforward.NewOnAddressesWithContext(ctx, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target),
		[]string{"127.0.0.1"}, []string{"0:8080"}, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { end <- forwarder.ForwardPorts() }()
	defer func() {
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("no port is forwarded")
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // each connection by itself
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "hello")
		text, err := io.ReadAll(conn)
		if err != nil || string(text) != "ns/pod:8080 hello" {
			t.Errorf("%q, %v", text, err)
		}
		_ = conn.Close()
	}
}
