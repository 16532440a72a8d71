// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// MetricsResourceRouteSuffix is the path of the metrics of pods and containers.
const MetricsResourceRouteSuffix = "/metrics/resource"

// ServeMux is what routes are attached to.
type ServeMux interface {
	Handle(path string, h http.Handler)
}

// PodHandlerConfig has the functions that answer requests. A request for which there is none
// is answered with 501, but for stats and metrics: then there is no such path.
type PodHandlerConfig struct {
	RunInContainer    ContainerExecHandlerFunc
	AttachToContainer ContainerAttachHandlerFunc
	PortForward       PortForwardHandlerFunc
	GetContainerLogs  ContainerLogsHandlerFunc
	// GetPods returns the pods that the provider has.
	GetPods PodListerFunc
	// GetPodsFromKubernetes returns the pods that the node should run.
	GetPodsFromKubernetes PodListerFunc
	GetStatsSummary       PodStatsSummaryHandlerFunc
	GetMetricsResource    PodMetricsResourceHandlerFunc
	// StreamIdleTimeout is how long streams may be silent, StreamCreationTimeout how long a
	// client may take to open them. Zero stands for 30 seconds.
	StreamIdleTimeout     time.Duration
	StreamCreationTimeout time.Duration
}

// PodHandler answers all requests about pods. /runningpods/, what GetPods returns, is served
// if debug is set.
func PodHandler(p PodHandlerConfig, debug bool) http.Handler {
	r := http.NewServeMux()
	if debug {
		both(r, "/runningpods", HandleRunningPods(p.GetPods))
	}
	both(r, "/pods", HandleRunningPods(p.GetPodsFromKubernetes))
	r.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", HandleContainerLogs(p.GetContainerLogs))
	exec := []ContainerExecHandlerOption{WithExecStreamCreationTimeout(p.StreamCreationTimeout), WithExecStreamIdleTimeout(p.StreamIdleTimeout)}
	forward := []PortForwardHandlerOption{WithPortForwardCreationTimeout(p.StreamCreationTimeout), WithPortForwardStreamIdleTimeout(p.StreamIdleTimeout)}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		r.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", HandleContainerExec(p.RunInContainer, exec...))
		r.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", HandleContainerAttach(p.AttachToContainer, exec...))
		r.HandleFunc(method+" /portForward/{namespace}/{pod}", HandlePortForward(p.PortForward, forward...))
	}
	routeMetrics(r, PodMetricsConfig{p.GetStatsSummary, p.GetMetricsResource})
	return r
}

// PodMetricsConfig has the functions that answer requests about what pods use.
type PodMetricsConfig struct {
	GetStatsSummary    PodStatsSummaryHandlerFunc
	GetMetricsResource PodMetricsResourceHandlerFunc
}

// routeMetrics adds the paths for which there are functions.
func routeMetrics(r *http.ServeMux, p PodMetricsConfig) {
	if p.GetStatsSummary != nil {
		both(r, "/stats/summary", HandlePodStatsSummary(p.GetStatsSummary))
	}
	if p.GetMetricsResource != nil {
		both(r, MetricsResourceRouteSuffix, HandlePodMetricsResource(p.GetMetricsResource))
	}
}

// both routes GET of a path without and with a slash at its end.
func both(r *http.ServeMux, path string, h http.HandlerFunc) {
	r.HandleFunc("GET "+path, h)
	r.HandleFunc("GET "+path+"/{$}", h)
}

// PodStatsSummaryHandler serves /stats/summary and nothing else. It answers with 501 if f is
// nil.
func PodStatsSummaryHandler(f PodStatsSummaryHandlerFunc) http.Handler {
	return metricsHandler(PodMetricsConfig{GetStatsSummary: f}, f == nil)
}

// PodMetricsResourceHandler serves MetricsResourceRouteSuffix and nothing else. It answers
// with 501 if f is nil.
func PodMetricsResourceHandler(f PodMetricsResourceHandlerFunc) http.Handler {
	return metricsHandler(PodMetricsConfig{GetMetricsResource: f}, f == nil)
}

func metricsHandler(p PodMetricsConfig, missing bool) http.Handler {
	if missing {
		return http.HandlerFunc(NotImplemented)
	}
	r := http.NewServeMux()
	routeMetrics(r, p)
	return r
}

// AttachPodRoutes attaches PodHandler to a mux, for all paths.
func AttachPodRoutes(p PodHandlerConfig, mux ServeMux, debug bool) {
	mux.Handle("/", InstrumentHandler(PodHandler(p, debug)))
}

// AttachPodMetricsRoutes attaches stats and metrics to a mux, for all paths. It answers with
// 501 if there is neither.
func AttachPodMetricsRoutes(p PodMetricsConfig, mux ServeMux) {
	mux.Handle("/", InstrumentHandler(metricsHandler(p, p.GetStatsSummary == nil && p.GetMetricsResource == nil)))
}

// InstrumentHandler has the logger of each request, klog.FromContext, name its method and path.
func InstrumentHandler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context()).WithValues("method", r.Method, "path", r.URL.Path)
		h.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logger)))
	})
}

// NotFound answers that there is no such path.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "404 request not found", http.StatusNotFound)
}

// NotImplemented answers that the node does not do this.
func NotImplemented(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close") // as the API server does after an upgrade that was refused
	http.Error(w, "501 not implemented", http.StatusNotImplemented)
}
