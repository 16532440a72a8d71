// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// ContainerExecHandlerFunc runs a command in a container, and returns when it has ended. The
// client is told the exit code of an error that is, or wraps, an ExitError of
// k8s.io/utils/exec or of os/exec.
type ContainerExecHandlerFunc func(ctx context.Context, namespace, podName, containerName string, cmd []string, attach AttachIO) error

// ContainerAttachHandlerFunc attaches to the main process of a container. Exit codes are reported
// as by a ContainerExecHandlerFunc.
type ContainerAttachHandlerFunc func(ctx context.Context, namespace, podName, containerName string, attach AttachIO) error

// AttachIO are the streams of a client.
type AttachIO interface {
	// Stdin, Stdout and Stderr are nil if the client did not ask for the stream.
	Stdin() io.Reader
	Stdout() io.WriteCloser
	Stderr() io.WriteCloser
	// TTY tells whether the client wants a terminal.
	TTY() bool
	// Resize has the size of the client's terminal, at first and after each change. It is
	// nil without a terminal, and is never closed.
	Resize() <-chan TermSize
}

// TermSize is the size of a terminal, in characters.
type TermSize struct {
	Width  uint16
	Height uint16
}

// ContainerExecHandlerConfig is what options of HandleContainerExec and HandleContainerAttach set.
// For each field, zero stands for 30 seconds.
type ContainerExecHandlerConfig struct {
	// StreamIdleTimeout is how long the streams may be idle before they are closed.
	StreamIdleTimeout time.Duration
	// StreamCreationTimeout is how long a client may take to open its streams.
	StreamCreationTimeout time.Duration
}

// ContainerExecHandlerOption configures HandleContainerExec and HandleContainerAttach.
type ContainerExecHandlerOption func(*ContainerExecHandlerConfig)

// WithExecStreamIdleTimeout sets StreamIdleTimeout.
func WithExecStreamIdleTimeout(dur time.Duration) ContainerExecHandlerOption {
	return func(cfg *ContainerExecHandlerConfig) { cfg.StreamIdleTimeout = dur }
}

// WithExecStreamCreationTimeout sets StreamCreationTimeout.
func WithExecStreamCreationTimeout(dur time.Duration) ContainerExecHandlerOption {
	return func(cfg *ContainerExecHandlerConfig) { cfg.StreamCreationTimeout = dur }
}

// HandleContainerExec runs the command in the query of a request, and serves its streams.
func HandleContainerExec(h ContainerExecHandlerFunc, opts ...ContainerExecHandlerOption) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return handleStreams(opts, func(ctx context.Context, path []string, r *http.Request, streams AttachIO) error {
		return h(ctx, path[0], path[1], path[2], r.URL.Query()["command"], streams)
	})
}

// HandleContainerAttach attaches to a container, and serves the streams.
func HandleContainerAttach(h ContainerAttachHandlerFunc, opts ...ContainerExecHandlerOption) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return handleStreams(opts, func(ctx context.Context, path []string, _ *http.Request, streams AttachIO) error {
		return h(ctx, path[0], path[1], path[2], streams)
	})
}

func orDefault(d time.Duration) time.Duration {
	if d == 0 {
		return remotecommand.DefaultStreamCreationTimeout
	}
	return d
}

// handleStreams returns a handler that opens the streams that a client asks for, and calls run with
// them. The path has namespace, pod and container.
func handleStreams(opts []ContainerExecHandlerOption, run func(ctx context.Context, path []string, r *http.Request, streams AttachIO) error) http.HandlerFunc {
	var cfg ContainerExecHandlerConfig
	for _, o := range opts {
		o(&cfg)
	}
	return handlerOf(func(w http.ResponseWriter, r *http.Request) error {
		path, err := wildcards(r, "namespace", "pod", "container")
		if err != nil {
			return err
		}
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			return errdefs.AsInvalidInput(err)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		// Attach is served as exec, too, since only exec reports exit codes to the client.
		executor := executor(func(streams AttachIO) error { return run(ctx, path, r, streams) })
		remotecommand.ServeExec(watchHijacked(w, cancel), r.WithContext(ctx), executor, "", "", path[2], nil, options,
			orDefault(cfg.StreamIdleTimeout), orDefault(cfg.StreamCreationTimeout), remotecommand.SupportedStreamingProtocols)
		return nil
	})
}

// executor makes a function a remotecommand.Executor, which cri-streaming calls with the streams.
type executor func(streams AttachIO) error

// ExecInContainer implements remotecommand.Executor. It needs no context of its own: the function
// has that of the request.
func (run executor) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &streams{in: in, out: out, err: err, tty: tty}
	if tty {
		s.resize = make(chan TermSize)
		go forwardSizes(ctx, resize, s.resize)
	}
	return withExitCode(run(s))
}

// forwardSizes forwards changes of the terminal's size until the client sends no more, or ctx ends.
func forwardSizes(ctx context.Context, from <-chan remotecommand.TerminalSize, to chan<- TermSize) {
	for {
		select {
		case size, more := <-from:
			if !more {
				return
			}
			select {
			case to <- TermSize{Width: size.Width, Height: size.Height}:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// withExitCode returns the exit error within err in the form that cri-streaming reads exit codes
// from. It returns err if there is none.
func withExitCode(err error) error {
	var told utilexec.ExitError
	var process *exec.ExitError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &process):
		return &utilexec.ExitErrorWrapper{ExitError: process}
	}
	return err
}

type streams struct {
	in       io.Reader
	out, err io.WriteCloser
	tty      bool
	resize   chan TermSize
}

func (s *streams) Stdin() io.Reader        { return s.in }
func (s *streams) Stdout() io.WriteCloser  { return s.out }
func (s *streams) Stderr() io.WriteCloser  { return s.err }
func (s *streams) TTY() bool               { return s.tty }
func (s *streams) Resize() <-chan TermSize { return s.resize }
