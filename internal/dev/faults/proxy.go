// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Proxy passes requests on, but for those that a fault spoils. It is safe for concurrent
// use.
type Proxy struct {
	server  *http.Server
	address string
	forward http.Handler

	mutex  sync.Mutex
	faults []*Fault
	spoilt int
}

// Start listens on a free port of the loopback address. The proxy passes requests on as
// the user of target, whoever sends them.
func Start(target *rest.Config, serving tls.Certificate) (*Proxy, error) {
	server, err := url.Parse(target.Host)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: target: %w", err)
	}
	transport, err := rest.TransportFor(target)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: target: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	silence := log.New(io.Discard, "", 0)
	p := &Proxy{
		address: "https://" + listener.Addr().String(),
		forward: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
			Transport:     transport,
			FlushInterval: -1, // watches
			ErrorLog:      silence,
		},
	}
	p.server = &http.Server{
		Handler:   p,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{serving}, MinVersion: tls.VersionTLS12},
		ErrorLog:  silence,
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // it ends with Close
	return p, nil
}

// URL is where the proxy listens.
func (p *Proxy) URL() string { return p.address }

// Close ends the proxy and all connections through it.
func (p *Proxy) Close() error { return p.server.Close() }

// Inject adds a fault.
func (p *Proxy) Inject(fault Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults = append(p.faults, &fault)
}

// Heal removes all faults, and returns how many requests were spoilt since the last time.
func (p *Proxy) Heal() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	spoilt := p.spoilt
	p.faults, p.spoilt = nil, 0
	return spoilt
}

// Spoilt is how many requests were spoilt since the last time that Heal was called.
func (p *Proxy) Spoilt() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.spoilt
}

// ServeHTTP handles one request of the client.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, ok := p.take(r)
	switch {
	case !ok:
		p.forward.ServeHTTP(w, r)
	case fault.hold != nil:
		fault.hold.wait(r)
		p.forward.ServeHTTP(w, r)
	case fault.Status != 0:
		answer(w, fault.Status)
	default:
		p.forward.ServeHTTP(void{make(http.Header)}, r)
		panic(http.ErrAbortHandler)
	}
}

// take finds the fault that a request meets, and counts it.
func (p *Proxy) take(r *http.Request) (Fault, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, fault := range p.faults {
		if fault.meets(r) {
			fault.Times--
			p.spoilt++
			return *fault, true
		}
	}
	return Fault{}, false
}
