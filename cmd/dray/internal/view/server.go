// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

// web has the files of the page. Their sources are in the same folder.
//
//go:embed web/index.html web/dist/app.js web/dist/app.css web/icon.svg
var web embed.FS

// Listen configures the server.
type Listen struct {
	// Address is host:port. An empty host stands for the loopback address.
	Address string
	// Certificate and Key are PEM files. Both are empty for a loopback address.
	Certificate, Key string
	// Token authenticates requests. If it is empty, a random one is used.
	Token string
}

// Server serves the page of a source.
type Server struct {
	source   *Source
	access   *access
	listener net.Listener
	server   *http.Server
	// asking is a semaphore: one what-if is computed at a time.
	asking chan struct{}
}

// NewServer starts to listen. Call Serve or Close afterwards.
func NewServer(ctx context.Context, source *Source, where Listen) (*Server, error) {
	s := &Server{source: source, asking: make(chan struct{}, 1), access: &access{token: where.Token, scheme: "http"}}
	if s.access.token == "" {
		s.access.token = newToken()
	}
	var config *tls.Config
	if where.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(where.Certificate, where.Key)
		if err != nil {
			return nil, err
		}
		if s.access.certificate, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
		s.access.scheme = "https"
		config = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", where.Address)
	if err != nil {
		return nil, err
	}
	address, isTCP := listener.Addr().(*net.TCPAddr)
	if !isTCP || config == nil && !address.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen on %s: without a certificate the page is for this machine only", listener.Addr()), listener.Close())
	}
	s.access.address, s.listener = address, listener
	s.access.cookie = "dray-view-" + strconv.Itoa(address.Port)
	if config != nil {
		s.listener = tls.NewListener(listener, config)
	}
	s.server = &http.Server{
		Handler: s.access.guard(s.routes()), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // the log would let anyone who can connect write to the terminal
	}
	return s, nil
}

// URL returns the URL of the page, with the token.
func (s *Server) URL() string {
	host := s.access.address.String()
	if s.access.certificate != nil && len(s.access.certificate.DNSNames) > 0 {
		host = net.JoinHostPort(s.access.certificate.DNSNames[0], strconv.Itoa(s.access.address.Port))
	}
	return fmt.Sprintf("%s://%s/?token=%s", s.access.scheme, host, s.access.token)
}

// Serve serves requests until the context is done.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.server.Close() }) // event streams would not end by themselves
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]struct{ name, kind string }{
		"GET /{$}":      {"web/index.html", "text/html; charset=utf-8"},
		"GET /app.js":   {"web/dist/app.js", "text/javascript; charset=utf-8"},
		"GET /app.css":  {"web/dist/app.css", "text/css; charset=utf-8"},
		"GET /icon.svg": {"web/icon.svg", "image/svg+xml"},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			content, err := web.ReadFile(file.name)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", file.kind)
			_, _ = w.Write(content) // the client has disconnected
		})
	}
	mux.HandleFunc("GET /api/picture", s.picture)
	mux.HandleFunc("GET /api/explanation", s.explanation)
	mux.HandleFunc("GET /api/usage", s.usage)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("POST /api/whatif", s.whatIf)
	return mux
}

func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	s.writeJSON(w, r, s.source.Picture())
}

// asked returns the picture with the revision or what-if in a request. If it is not available any
// more, it writes an error response and returns nil.
func (s *Server) asked(w http.ResponseWriter, r *http.Request) *Picture {
	p := s.source.Picture()
	if of := r.URL.Query().Get("whatif"); of != "" {
		p = s.source.after(of)
	} else if r.URL.Query().Get("revision") != strconv.FormatInt(p.Revision, 10) {
		p = nil
	}
	if p == nil {
		http.Error(w, "the picture has changed", http.StatusConflict)
	}
	return p
}

// explanation serves the explanation with the number in Waiting.Answer.
func (s *Server) explanation(w http.ResponseWriter, r *http.Request) {
	p := s.asked(w, r)
	if p == nil {
		return
	}
	number, err := strconv.Atoi(r.URL.Query().Get("answer"))
	if err != nil || number < 0 || number >= len(p.answers) {
		http.Error(w, "there is no such explanation", http.StatusNotFound)
		return
	}
	s.writeJSON(w, r, p.answers[number])
}

// usage serves the counts of devices by a value of dray usage --by.
func (s *Server) usage(w http.ResponseWriter, r *http.Request) {
	by, err := usage.ParseBy(r.URL.Query().Get("by"))
	if err != nil {
		http.Error(w, "by "+err.Error(), http.StatusBadRequest)
		return
	}
	if p := s.asked(w, r); p != nil {
		s.writeJSON(w, r, p.Usage(by))
	}
}

// heartbeat is how often an idle event stream sends a message.
const heartbeat = 10 * time.Second

// events sends changes as server-sent events. If the client has another revision, it is told to
// read the whole picture.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	events, status, revision, end := s.source.follow()
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(event Event) error {
		data, err := json.Marshal(event.Data)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event.Name, data); err != nil {
			return err
		}
		return control.Flush()
	}
	err := send(Event{"status", status})
	if r.URL.Query().Get("revision") != strconv.FormatInt(revision, 10) && err == nil {
		err = send(Event{"whole", struct{}{}})
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for err == nil {
		select {
		case <-r.Context().Done():
			return
		case event, open := <-events:
			if !open {
				return
			}
			err = send(event)
		case <-beat.C:
			if _, err = io.WriteString(w, ": still here\n\n"); err == nil {
				err = control.Flush()
			}
		}
	}
}

// maxAsked is the maximum size of a request body, in bytes.
const maxAsked = 1 << 20

func (s *Server) whatIf(w http.ResponseWriter, r *http.Request) {
	var change Change
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAsked))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&change); err != nil {
		http.Error(w, "what if: "+err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-r.Context().Done():
		return
	}
	outcome, err := s.source.WhatIf(r.Context(), &change)
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(map[string][]string{"errors": messages(err)}) // the client has disconnected
		return
	}
	s.writeJSON(w, r, outcome)
}

// messages returns the messages of the errors that an error joins.
func messages(err error) []string {
	joined, isJoined := err.(interface{ Unwrap() []error })
	if !isJoined {
		return []string{err.Error()}
	}
	var texts []string
	for _, each := range joined.Unwrap() {
		texts = append(texts, each.Error())
	}
	return texts
}

// writeJSON writes a value as JSON. It is compressed if the server has a certificate, because
// clients are then on other machines.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	if s.access.certificate == nil || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_ = json.NewEncoder(w).Encode(value) // the client has disconnected
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	_ = json.NewEncoder(packed).Encode(value)
	_ = packed.Close()
}
