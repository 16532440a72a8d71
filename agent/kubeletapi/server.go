// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/dray-project/dray/agent/node/api"
	"github.com/dray-project/dray/agent/node/nodeutil"
)

// Pods gives access to the pods of a node.
type Pods interface {
	// GetPod returns a pod with its status, or nil or an error of the class NotFound. Pods that the
	// node refused to run are included.
	GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// GetPods returns all pods with their statuses.
	GetPods(ctx context.Context) ([]*corev1.Pod, error)
	// LogFile returns the path of a container's log file, in CRI format. With previous, it is the
	// log of the start before the latest one. If there is none, the error says why in words for
	// users.
	LogFile(pod *corev1.Pod, container string, previous bool) (string, error)
}

// Options configure Serve. All are required unless they say otherwise.
type Options struct {
	// NodeName is the name of the node in access reviews.
	NodeName string
	// Client creates TokenReviews and SubjectAccessReviews.
	Client kubernetes.Interface
	Pods   Pods
	// ClientCAFile is a PEM file of the authorities whose client certificates are accepted. If it
	// is empty, only tokens are.
	ClientCAFile string
	// CertFile and KeyFile are the server's certificate and key. They are read again for each
	// connection. If they are empty, the server signs a certificate for itself.
	CertFile, KeyFile string
}

type server struct{ pods Pods }

// Serve serves requests on a listener. It returns nil when ctx ends. It closes the listener.
func Serve(ctx context.Context, listener net.Listener, options Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = listener.Close() }()
	certificate, err := certificateOf(options, listener.Addr())
	if err != nil {
		return fmt.Errorf("kubelet's API: certificate: %w", err)
	}
	auth, err := newAuth(ctx, options.NodeName, options.Client, options.ClientCAFile)
	if err != nil {
		return fmt.Errorf("kubelet's API: %w", err)
	}
	s := &http.Server{
		Handler: nodeutil.WithAuth(auth, handler(options.Pods)), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// WithAuth verifies client certificates for each request, not the TLS handshake.
		TLSConfig: &tls.Config{GetCertificate: certificate, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) || ctx.Err() == nil {
		return fmt.Errorf("kubelet's API: %w", err)
	}
	return nil
}

func certificateOf(options Options, address net.Addr) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if options.CertFile != "" {
		load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(options.CertFile, options.KeyFile)
			return &pair, err
		}
		_, err := load(nil)
		return load, err
	}
	var ips []net.IP
	if tcp, ok := address.(*net.TCPAddr); ok {
		ips = append(ips, tcp.IP)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(options.NodeName, ips, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, err
}

func handler(pods Pods) http.Handler {
	s := &server{pods}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /pods", api.HandleRunningPods(pods.GetPods))
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.serveLogs)
	for path, what := range map[string]string{
		"/exec/": "commands cannot be run in it", "/run/": "commands cannot be run in it", "/attach/": "it cannot be attached to",
		"/portForward/": "no port of it is forwarded",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			// The API server closes the connection after a refused upgrade. Without this header, a
			// client would send its next request on the closed connection.
			w.Header().Set("Connection", "close")
			http.Error(w, "the pod runs as processes of dray-agent's machine: "+what, http.StatusNotImplemented)
		})
	}
	return mux
}
