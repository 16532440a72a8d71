// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// watchHijacked calls lost when a hijacked connection ends, at either side. Idle streams would not
// notice.
func watchHijacked(w http.ResponseWriter, lost func()) http.ResponseWriter {
	return &hijackWatcher{w, lost}
}

// hijackWatcher calls lost when its hijacked connection ends. It has no Unwrap method, so that
// nobody can hijack the connection without it.
type hijackWatcher struct {
	http.ResponseWriter
	lost func()
}

// Hijack implements http.Hijacker. The caller reads from the returned reader, and closes the
// connection at the end of its protocol.
func (w *hijackWatcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	buffers.Reader = bufio.NewReader(&watchedReader{buffers.Reader, w.lost})
	return &watchedConn{conn, w.lost}, buffers, nil
}

type watchedReader struct {
	io.Reader
	lost func()
}

func (r *watchedReader) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	if err != nil {
		r.lost()
	}
	return n, err
}

type watchedConn struct {
	net.Conn
	lost func()
}

func (c *watchedConn) Close() error {
	c.lost()
	return c.Conn.Close()
}
