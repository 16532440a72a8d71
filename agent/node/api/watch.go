// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// watch calls lost when a connection that was taken over ends, at either side: streams that
// nobody reads or writes would not tell.
func watch(w http.ResponseWriter, lost func()) http.ResponseWriter {
	return &watched{w, lost}
}

// watched has no Unwrap: whoever takes the connection over must not get past it.
type watched struct {
	http.ResponseWriter
	lost func()
}

// Hijack implements http.Hijacker. Whoever takes a connection over reads from the reader, and
// closes the connection when its protocol says that it ends.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
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
