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

// ServeMux is the part of http.ServeMux that the Attach functions need.
type ServeMux interface {
	Handle(path string, h http.Handler)
}

// PodHandlerConfig has the functions that serve requests. If a function is nil, the response is
// 501. Without functions for stats and metrics, their paths do not exist.
type PodHandlerConfig struct {
	RunInContainer    ContainerExecHandlerFunc
	AttachToContainer ContainerAttachHandlerFunc
	PortForward       PortForwardHandlerFunc
	GetContainerLogs  ContainerLogsHandlerFunc
	// GetPods returns the pods that the provider runs.
	GetPods PodListerFunc
	// GetPodsFromKubernetes returns the pods that the node should run.
	GetPodsFromKubernetes PodListerFunc
	GetStatsSummary       PodStatsSummaryHandlerFunc
	GetMetricsResource    PodMetricsResourceHandlerFunc
	// StreamIdleTimeout is how long streams may be idle, StreamCreationTimeout how long a client
	// may take to open them. Zero stands for 30 seconds.
	StreamIdleTimeout     time.Duration
	StreamCreationTimeout time.Duration
}

// PodHandler serves all requests about pods. With debug, it also serves the result of GetPods at
// /runningpods/.
func PodHandler(p PodHandlerConfig, debug bool) http.Handler {
	r := http.NewServeMux()
	if debug {
		handleGet(r, "/runningpods", HandleRunningPods(p.GetPods))
	}
	handleGet(r, "/pods", HandleRunningPods(p.GetPodsFromKubernetes))
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

// PodMetricsConfig has the functions that serve requests for resource usage.
type PodMetricsConfig struct {
	GetStatsSummary    PodStatsSummaryHandlerFunc
	GetMetricsResource PodMetricsResourceHandlerFunc
}

// routeMetrics adds routes for the functions that are not nil.
func routeMetrics(r *http.ServeMux, p PodMetricsConfig) {
	if p.GetStatsSummary != nil {
		handleGet(r, "/stats/summary", HandlePodStatsSummary(p.GetStatsSummary))
	}
	if p.GetMetricsResource != nil {
		handleGet(r, MetricsResourceRouteSuffix, HandlePodMetricsResource(p.GetMetricsResource))
	}
}

// handleGet routes GET requests of a path, with and without a trailing slash.
func handleGet(r *http.ServeMux, path string, h http.HandlerFunc) {
	r.HandleFunc("GET "+path, h)
	r.HandleFunc("GET "+path+"/{$}", h)
}

// PodStatsSummaryHandler serves /stats/summary and nothing else. The response is 501 if f is nil.
func PodStatsSummaryHandler(f PodStatsSummaryHandlerFunc) http.Handler {
	return metricsHandler(PodMetricsConfig{GetStatsSummary: f}, f == nil)
}

// PodMetricsResourceHandler serves MetricsResourceRouteSuffix and nothing else. The response is 501
// if f is nil.
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

// AttachPodRoutes adds PodHandler to a mux, for all paths.
func AttachPodRoutes(p PodHandlerConfig, mux ServeMux, debug bool) {
	mux.Handle("/", InstrumentHandler(PodHandler(p, debug)))
}

// AttachPodMetricsRoutes adds the handler of stats and metrics to a mux, for all paths. The
// response is 501 if both functions are nil.
func AttachPodMetricsRoutes(p PodMetricsConfig, mux ServeMux) {
	mux.Handle("/", InstrumentHandler(metricsHandler(p, p.GetStatsSummary == nil && p.GetMetricsResource == nil)))
}

// InstrumentHandler adds method and path to the logger in the context of each request. Handlers get
// it by klog.FromContext.
func InstrumentHandler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context()).WithValues("method", r.Method, "path", r.URL.Path)
		h.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logger)))
	})
}

// NotFound responds with 404.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "404 request not found", http.StatusNotFound)
}

// NotImplemented responds with 501.
func NotImplemented(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close") // as the API server does after a refused upgrade
	http.Error(w, "501 not implemented", http.StatusNotImplemented)
}
