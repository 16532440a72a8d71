package deploy_test

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
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/dray-project/dray/internal/controlplane"
)

// recorder stands between a client and the API server, and keeps what permissions the
// requests of the client need. It can answer instead of the API server.
type recorder struct {
	address string
	forward http.Handler
	parse   request.RequestInfoFactory

	mu      sync.Mutex
	needed  map[permission]bool
	refused []string           // what the API server did not allow
	mishaps map[permission]int // the status of the next response, once
}

// record starts a recorder with the certificate of the API server.
func record(t *testing.T, plane *controlplane.ControlPlane) *recorder {
	t.Helper()
	target, err := url.Parse(plane.Address())
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(plane.Config().CAData)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{
		address: "https://" + listener.Addr().String(),
		needed:  make(map[permission]bool),
		mishaps: make(map[permission]int),
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
	certificate, err := plane.ServingCertificate()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return r
}

// ServeHTTP notes what the request needs, and has it answered.
func (r *recorder) ServeHTTP(w http.ResponseWriter, incoming *http.Request) {
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
func (r *recorder) note(parsed *request.RequestInfo) int {
	if !parsed.IsResourceRequest {
		return 0
	}
	p := permission{parsed.Verb, parsed.APIGroup, parsed.Resource, ""}
	if parsed.Subresource != "" {
		p.resource += "/" + parsed.Subresource
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.mishaps[p]
	delete(r.mishaps, p)
	p.name = parsed.Name
	r.needed[p] = true
	if p.resource == "resourceclaims/status" {
		// All that a scheduler changes there is allocation and reservedFor.
		p.resource = "resourceclaims/binding"
		r.needed[p] = true
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

func (r *recorder) inspect(response *http.Response) error {
	if response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, response.Request.Method+" "+response.Request.URL.Path)
	}
	return nil
}

// disturb answers the next request that needs a permission with an error.
func (r *recorder) disturb(p permission, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mishaps[p] = status
}

// disturbed reports whether all that was to go wrong has.
func (r *recorder) disturbed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mishaps) == 0
}

func (r *recorder) permissions() []permission {
	r.mu.Lock()
	defer r.mu.Unlock()
	var needed []permission
	for p := range r.needed {
		needed = append(needed, p)
	}
	return sorted(needed)
}

func (r *recorder) refusals() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}
