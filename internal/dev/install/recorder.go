// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// Recorder stands between a client and the API server, and keeps what permissions the
// requests of the client need. It can answer instead of the API server.
type Recorder struct {
	// Implied, if set, returns what else a request needs that needs a permission: what the API
	// server asks for although no request names it.
	Implied func(Permission) []Permission

	address   string
	authority []byte // of the certificate, as PEM
	server    *http.Server
	served    chan error
	forward   http.Handler
	parse     request.RequestInfoFactory

	mu      sync.Mutex
	needed  map[Permission]bool
	refused []string           // what the API server did not allow
	mishaps map[Permission]int // the status of the next response, once
}

// Record starts a recorder with the certificate of the API server.
func Record(plane *controlplane.ControlPlane) (*Recorder, error) {
	target, err := url.Parse(plane.Address())
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(plane.Config().CAData)
	certificate, err := plane.ServingCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		address: "https://" + listener.Addr().String(), authority: plane.Config().CAData,
		served:  make(chan error, 1),
		needed:  make(map[Permission]bool),
		mishaps: make(map[Permission]int),
		parse:   request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
	}
	r.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		FlushInterval:  -1,
		ModifyResponse: r.inspect,
		// Watches that the client ends are nothing to talk about.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	r.server = &http.Server{Handler: r, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	go func() { r.served <- r.server.ServeTLS(listener, "", "") }()
	return r, nil
}

// Address is where clients reach the API server by way of the recorder.
func (r *Recorder) Address() string { return r.address }

// Close ends all connections.
func (r *Recorder) Close() error {
	if err := errors.Join(r.server.Close(), <-r.served); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP notes what the request needs, and has it answered.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, incoming *http.Request) {
	parsed, err := r.parse.NewRequestInfo(incoming)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if status := r.note(parsed); status != 0 {
		answer(w, status)
		return
	}
	r.forward.ServeHTTP(w, incoming)
}

// note returns the status to answer with, or zero if that is for the API server to say.
func (r *Recorder) note(parsed *request.RequestInfo) int {
	if !parsed.IsResourceRequest {
		return 0
	}
	p := Permission{parsed.Verb, parsed.APIGroup, parsed.Resource, ""}
	if parsed.Subresource != "" {
		p.Resource += "/" + parsed.Subresource
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.mishaps[p]
	delete(r.mishaps, p)
	p.Name = parsed.Name
	r.needed[p] = true
	if r.Implied != nil {
		for _, implied := range r.Implied(p) {
			r.needed[implied] = true
		}
	}
	return status
}

func answer(w http.ResponseWriter, status int) {
	text, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(status), Message: "injected",
		Reason: map[int]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonConflict}[status],
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func (r *Recorder) inspect(response *http.Response) error {
	if response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, response.Request.Method+" "+response.Request.URL.Path)
	}
	return nil
}

// Disturb answers the next request that needs a permission with an error.
func (r *Recorder) Disturb(p Permission, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mishaps[p] = status
}

// Disturbed reports whether all that was to go wrong has.
func (r *Recorder) Disturbed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mishaps) == 0
}

// Needed are the permissions that requests needed, of whatever came of them.
func (r *Recorder) Needed() []Permission {
	r.mu.Lock()
	defer r.mu.Unlock()
	var needed []Permission
	for p := range r.needed {
		needed = append(needed, p)
	}
	return sorted(needed)
}

// Refused are the requests that the API server did not allow.
func (r *Recorder) Refused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}
