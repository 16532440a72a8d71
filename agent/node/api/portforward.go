// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// PortForwardHandlerFunc copies between a stream and a port of a pod until either ends. It is
// called for each connection, concurrently.
type PortForwardHandlerFunc func(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error

// PortForwardHandlerConfig is what options of HandlePortForward set. For each field, zero stands
// for 30 seconds.
type PortForwardHandlerConfig struct {
	// StreamIdleTimeout is how long the streams may be idle before they are closed.
	StreamIdleTimeout time.Duration
	// StreamCreationTimeout is how long a client may take to open the streams of a
	// connection.
	StreamCreationTimeout time.Duration
}

// PortForwardHandlerOption configures HandlePortForward.
type PortForwardHandlerOption func(*PortForwardHandlerConfig)

// WithPortForwardStreamIdleTimeout sets StreamIdleTimeout.
func WithPortForwardStreamIdleTimeout(dur time.Duration) PortForwardHandlerOption {
	return func(cfg *PortForwardHandlerConfig) { cfg.StreamIdleTimeout = dur }
}

// WithPortForwardCreationTimeout sets StreamCreationTimeout.
func WithPortForwardCreationTimeout(dur time.Duration) PortForwardHandlerOption {
	return func(cfg *PortForwardHandlerConfig) { cfg.StreamCreationTimeout = dur }
}

// HandlePortForward forwards connections of a client to ports of a pod.
func HandlePortForward(h PortForwardHandlerFunc, opts ...PortForwardHandlerOption) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	var cfg PortForwardHandlerConfig
	for _, o := range opts {
		o(&cfg)
	}
	return handlerOf(func(w http.ResponseWriter, r *http.Request) error {
		path, err := wildcards(r, "namespace", "pod")
		if err != nil {
			return err
		}
		options, err := portforward.NewV4Options(r)
		if err != nil {
			return errdefs.AsInvalidInput(err)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		forwarder := forwarder(func(port int32, stream io.ReadWriteCloser) error { return h(ctx, path[0], path[1], port, stream) })
		portforward.ServePortForward(watchHijacked(w, cancel), r.WithContext(ctx), forwarder, path[1], "", options,
			orDefault(cfg.StreamIdleTimeout), orDefault(cfg.StreamCreationTimeout), portforward.SupportedProtocols)
		return nil
	})
}

// forwarder makes a function a portforward.PortForwarder, which cri-streaming calls for each
// connection.
type forwarder func(port int32, stream io.ReadWriteCloser) error

// PortForward implements portforward.PortForwarder.
func (forward forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	return forward(port, stream)
}
