// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/api"
	"github.com/dray-project/dray/agent/node/errdefs"
)

func ask(handler http.Handler, method, path string) (int, string) {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder.Code, recorder.Body.String()
}

// TestRefusedUpgradeClosesItsConnection is about the API server between caller and node: it closes the
// connection of an upgrade that was refused, and a caller that had kept it would lose its next request.
func TestRefusedUpgradeClosesItsConnection(t *testing.T) {
	recorder := httptest.NewRecorder()
	api.NotImplemented(recorder, httptest.NewRequest(http.MethodPost, "/exec/ns/p/c", nil))
	if got := recorder.Header().Get("Connection"); got != "close" {
		t.Errorf("Connection: %q, want close", got)
	}
}

func podNamed(name string) api.PodListerFunc {
	return func(context.Context) ([]*corev1.Pod, error) {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}}, nil
	}
}

// logOf says what was asked for.
func logOf(_ context.Context, namespace, pod, container string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	switch pod {
	case "missing":
		return nil, errdefs.NotFound("there is no such pod")
	case "early":
		return nil, errdefs.InvalidInput("waits to start")
	case "broken":
		return nil, errors.New("disk on fire")
	}
	return io.NopCloser(strings.NewReader(fmt.Sprintf("%s/%s/%s %+v", namespace, pod, container, opts))), nil
}

// everything answers all requests that have no streams.
var everything = api.PodHandler(api.PodHandlerConfig{
	GetPods: podNamed("running"), GetPodsFromKubernetes: podNamed("wanted"), GetContainerLogs: logOf,
	GetStatsSummary: func(context.Context) (*statsv1alpha1.Summary, error) {
		return &statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{NodeName: "n"}}, nil
	},
	GetMetricsResource: func(context.Context) ([]*dto.MetricFamily, error) {
		return []*dto.MetricFamily{{
			Name: ptr.To("node_cpu_usage_seconds_total"), Type: dto.MetricType_COUNTER.Enum(), Metric: []*dto.Metric{{Counter: &dto.Counter{Value: ptr.To(1.5)}}},
		}}, nil
	},
}, true)

var failing = api.PodHandler(api.PodHandlerConfig{
	GetPodsFromKubernetes: func(context.Context) ([]*corev1.Pod, error) { return nil, errors.New("not synced") },
	GetStatsSummary:       func(context.Context) (*statsv1alpha1.Summary, error) { return nil, errors.New("no meter") },
	GetMetricsResource: func(context.Context) ([]*dto.MetricFamily, error) {
		return []*dto.MetricFamily{{Name: ptr.To("nothing")}}, nil
	},
}, false)

// TestRequests have a method and a path, and the answer.
func TestRequests(t *testing.T) {
	const zero = "Timestamps:false Follow:false Previous:false SinceSeconds:0 SinceTime:0001-01-01 00:00:00 +0000 UTC}"
	for _, c := range []struct {
		handler http.Handler
		request string
		code    int
		body    string
	}{
		{everything, "GET /pods", 200, `"name":"wanted"`},
		{everything, "GET /pods/", 200, `"name":"wanted"`},
		{everything, "GET /runningpods/", 200, `"name":"running"`},
		{everything, "GET /runningpods", 200, `"kind":"PodList"`},
		{everything, "DELETE /pods", 405, ""},
		{everything, "GET /nothing", 404, ""},
		{everything, "GET /stats/summary", 200, `"nodeName":"n"`},
		{everything, "GET /stats/summary/", 200, `"nodeName":"n"`},
		{everything, "GET /metrics/resource", 200, "\nnode_cpu_usage_seconds_total 1.5\n"},
		{everything, "GET /containerLogs/ns/p/c", 200, "ns/p/c {Tail:0 LimitBytes:0 " + zero},
		{everything, "GET /containerLogs/ns/p/c?tailLines=&follow=", 200, "ns/p/c {Tail:0 LimitBytes:0 " + zero},
		{everything, "GET /containerLogs/ns/p/..%2Fc?tailLines=3&limitBytes=4", 200, "ns/p/../c {Tail:3 LimitBytes:4 " + zero},
		{everything, "GET /containerLogs/ns/p/c?follow=true&previous=1&timestamps=true&sinceSeconds=9", 200, "Timestamps:true Follow:true Previous:true SinceSeconds:9"},
		{everything, "GET /containerLogs/ns/p/c?sinceTime=2026-01-02T03:04:05Z", 200, "SinceTime:2026-01-02 03:04:05"},
		{everything, "GET /containerLogs/ns/p", 404, ""},
		{everything, "GET /containerLogs/ns/missing/c", 404, "there is no such pod"},
		{everything, "GET /containerLogs/ns/early/c", 400, "waits to start"},
		{everything, "GET /containerLogs/ns/broken/c", 500, "disk on fire"},
		{everything, "GET /containerLogs/ns/p/c?tailLines=many", 400, "query: tailLines"},
		{everything, "GET /containerLogs/ns/p/c?tailLines=-1", 422, "must not be negative"},
		{everything, "GET /containerLogs/ns/p/c?limitBytes=0", 422, "must be positive"},
		{everything, "GET /containerLogs/ns/p/c?sinceSeconds=0", 422, "must be positive"},
		{everything, "GET /containerLogs/ns/p/c?sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", 422, "at most one"},
		{everything, "GET /containerLogs/ns/p/c?stream=Both", 422, "stream"},
		{everything, "POST /exec/ns/p/c?output=1", 501, ""},
		{everything, "GET /attach/ns/p/c?output=1", 501, ""},
		{everything, "POST /portForward/ns/p", 501, ""},
		{failing, "GET /runningpods/", 404, ""},
		{failing, "GET /pods", 500, "not synced"},
		{failing, "GET /stats/summary", 500, "error getting status from provider: no meter"},
		{failing, "GET /metrics/resource", 500, "nothing"},
		{failing, "GET /containerLogs/ns/p/c", 501, ""},
		{api.PodHandler(api.PodHandlerConfig{}, true), "GET /runningpods/", 501, ""},
		{api.PodHandler(api.PodHandlerConfig{}, true), "GET /stats/summary", 404, ""},
		{api.PodStatsSummaryHandler(nil), "GET /stats/summary", 501, ""},
		{api.PodMetricsResourceHandler(nil), "GET /anything", 501, ""},
		// Streams that cannot be.
		{api.HandleContainerExec((&commands{}).run), "POST /exec/ns/p/c", 400, "at least 1 of stdin, stdout, stderr"},
		{api.HandleContainerExec((&commands{}).run), "POST /exec/ns/p/c?output=1", 400, "upgrade"},
		{api.HandleContainerExec((&commands{}).run), "POST /c?output=1", 404, "no such path"},
		// Another router.
		{http.StripPrefix("/virtual/node-1", api.HandleContainerLogs(logOf)), "GET /virtual/node-1/containerLogs/ns/p/c%2Fd", 200, "ns/p/c/d {"},
		{api.HandleContainerLogs(logOf), "GET /ns/p/", 404, "no such path"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		code, body := ask(c.handler, method, path)
		if code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s: %d %q, want %d %q", c.request, code, body, c.code, c.body)
		}
	}
}

// TestMetricsRoutes are attached together.
func TestMetricsRoutes(t *testing.T) {
	mux := http.NewServeMux()
	api.AttachPodMetricsRoutes(api.PodMetricsConfig{
		GetStatsSummary:    func(context.Context) (*statsv1alpha1.Summary, error) { return &statsv1alpha1.Summary{}, nil },
		GetMetricsResource: func(context.Context) ([]*dto.MetricFamily, error) { return nil, nil },
	}, mux)
	for _, path := range []string{"/stats/summary", api.MetricsResourceRouteSuffix} {
		if code, body := ask(mux, http.MethodGet, path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// TestLogIsFollowed sends each line at once, and closes the log when nobody reads it.
func TestLogIsFollowed(t *testing.T) {
	reader, writer := io.Pipe()
	server := serve(t, api.PodHandlerConfig{GetContainerLogs: func(context.Context, string, string, string, api.ContainerLogOpts) (io.ReadCloser, error) {
		return reader, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/containerLogs/ns/p/c?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = fmt.Fprint(writer, "one\n") }()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	awaitText(t, answer.Body, "one\n")
	cancel()
	for {
		if _, err := fmt.Fprint(writer, "two\n"); errors.Is(err, io.ErrClosedPipe) {
			break
		}
	}
	_ = answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}
