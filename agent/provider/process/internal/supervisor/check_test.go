// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// long is time enough for an answer, however slow the machine is.
const long = 60

// probeOf asks a container with one port, which it names "web". It waits for so many seconds.
func probeOf(t *testing.T, port int, handler corev1.ProbeHandler, seconds int32) (result, error) {
	t.Helper()
	spec := &corev1.Container{Name: "main", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}
	p := &probing{member: &member{Container: &Container{Name: "main"}, spec: spec}}
	return p.check(t.Context(), &corev1.Probe{ProbeHandler: handler, TimeoutSeconds: seconds})
}

func portOfServer(t *testing.T, address string) int {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestHTTP has the answers and the messages that kubelet has for each response.
func TestHTTP(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/headers":
			if r.Host != "example.com" || r.Header.Get("X-A") != "1" || r.UserAgent() != "kube-probe/1.37" || r.Header.Get("Accept") != "*/*" {
				w.WriteHeader(http.StatusTeapot)
			}
		case "/status/404":
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, "a secret")
		case "/here":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://example.com/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/big":
			_, _ = w.Write(make([]byte, 1<<20))
		case "/hangs":
			<-r.Context().Done()
		}
	})
	plain, encrypted := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer encrypted.Close()
	for _, c := range []struct {
		path    string
		healthy bool
		output  string
	}{
		{path: "/", healthy: true}, {path: "relative", healthy: true}, {path: "/big", healthy: true}, {path: "/here", healthy: true},
		{path: "/headers", healthy: true}, {path: "/%zz", healthy: true},
		{path: "/status/404", output: "HTTP probe failed with statuscode: 404"}, {path: "/away", healthy: true, output: "Probe terminated redirects"},
		{path: "/loop", output: "stopped after 10 redirects"}, {path: "/hangs", output: "deadline exceeded"},
	} {
		for _, server := range []*httptest.Server{plain, encrypted} {
			action := &corev1.HTTPGetAction{Path: c.path, Port: intstr.FromString("web"), HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "example.com"}, {Name: "X-A", Value: "1"}}}
			if server == encrypted {
				action.Scheme = corev1.URISchemeHTTPS
			}
			if c.path != "/headers" {
				action.HTTPHeaders = nil
			}
			seconds := int32(long)
			if c.path == "/hangs" {
				seconds = 1
			}
			got, err := probeOf(t, portOfServer(t, server.URL), corev1.ProbeHandler{HTTPGet: action}, seconds)
			if err != nil || got.healthy != c.healthy || !strings.Contains(got.output, c.output) || c.output == "" && got.output != "" || strings.Contains(got.output, "secret") {
				t.Errorf("%s %s: got %+v, %v", server.URL, c.path, got, err)
			}
			if got.warning != (c.path == "/away") {
				t.Errorf("%s: warning %v", c.path, got.warning)
			}
		}
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	action := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(port))}}
	if got, err := probeOf(t, port, action, long); err != nil || !got.healthy {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := probeOf(t, port, action, long); err != nil || got.healthy || !strings.Contains(got.output, "refused") {
		t.Errorf("nobody listens: got %+v, %v", got, err)
	}
	action.TCPSocket.Port = intstr.FromString("nothing")
	if got, err := probeOf(t, port, action, long); err == nil || !strings.Contains(err.Error(), `port "nothing"`) {
		t.Errorf("a port that is not named: got %+v, %v", got, err)
	}
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, services := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, services)
	services.SetServingStatus("sick", healthpb.HealthCheckResponse_NOT_SERVING)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	for service, want := range map[string]string{"": "", "sick": `service unhealthy (responded with "NOT_SERVING")`, "unknown": "health rpc probe failed"} {
		got, err := probeOf(t, int(port), corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port, Service: ptr.To(service)}}, long)
		if err != nil || got.healthy != (want == "") || !strings.Contains(got.output, want) {
			t.Errorf("service %q: got %+v, %v", service, got, err)
		}
	}
}

// TestGRPCWithoutAnswer has servers that do not know the protocol of health, that never answer, and that are not there.
func TestGRPCWithoutAnswer(t *testing.T) {
	listen := func() (net.Listener, int32) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return listener, int32(listener.Addr().(*net.TCPAddr).Port)
	}
	other, otherPort := listen()
	server := grpc.NewServer()
	go func() { _ = server.Serve(other) }()
	defer server.Stop()
	silent, silentPort := listen() // which accepts connections, and says nothing
	defer func() { _ = silent.Close() }()
	gone, gonePort := listen()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int32]string{
		otherPort:  "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ",
		silentPort: fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 1s: context deadline exceeded`, silentPort),
		gonePort:   fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 1s: context deadline exceeded`, gonePort),
	} {
		seconds := int32(long)
		if port != otherPort {
			seconds = 1
		}
		got, err := probeOf(t, int(port), corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port}}, seconds)
		if err != nil || got.healthy || !strings.HasPrefix(got.output, want) {
			t.Errorf("got %+v, %v, want %q", got, err, want)
		}
	}
}

// TestThresholds has probes agree so often before anything is told, and begin anew when they
// disagree.
func TestThresholds(t *testing.T) {
	answers := []int{200, 500, 200, 200, 500, 500, 200, 500, 500, 500}
	asked := make(chan int, 100)
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[min(n, len(answers)-1)])
		n++
		asked <- n
	}))
	defer server.Close()
	spec := &corev1.Container{Name: "main"}
	p := &probing{
		running: &running{folder: t.TempDir(), ending: make(chan struct{})},
		member:  &member{Container: &Container{Name: "main"}, spec: spec, status: &corev1.ContainerStatus{}},
	}
	probe := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(portOfServer(t, server.URL))}}, TimeoutSeconds: 5,
		SuccessThreshold: 2, FailureThreshold: 3,
	}
	var told []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.every(ctx, readiness, probe, time.Millisecond, func(healthy bool) (done bool) {
		told = append(told, fmt.Sprint(n, healthy))
		return !healthy
	})
	if want := "[4 true 10 false]"; fmt.Sprint(told) != want {
		t.Errorf("told %v, want %s", told, want)
	}
}

// countUntil has a container probed each millisecond, whose probe succeeds, until enough are told, or it is not probed any more.
func (p *probing) countUntil(t *testing.T, kind string, probe *corev1.Probe, enough int) (told int) {
	t.Helper()
	p.every(t.Context(), kind, probe, time.Millisecond, func(bool) bool {
		told++
		return told == enough
	})
	return told
}

// TestInitialDelay: nothing is probed before it is over.
func TestInitialDelay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := &probing{running: &running{ending: make(chan struct{})}, member: &member{Container: &Container{Name: "main"}, spec: &corev1.Container{Name: "main"}}}
	probe := &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(portOfServer(t, server.URL))}},
		InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 1,
	}
	began := time.Now()
	if told := p.countUntil(t, liveness, probe, 1); told != 1 || time.Since(began) < time.Second {
		t.Errorf("%d probes in %v", told, time.Since(began))
	}
}

// TestProbesOfAPodThatEnds: readiness goes on, and no other probe says that a container is to end.
func TestProbesOfAPodThatEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	ending := make(chan struct{})
	close(ending)
	p := &probing{
		running: &running{folder: t.TempDir(), ending: ending, plan: &Plan{Pod: &corev1.Pod{}}}, failed: make(chan time.Duration, 1),
		member: &member{Container: &Container{Name: "main"}, spec: &corev1.Container{Name: "main"}},
	}
	probe := &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(portOfServer(t, server.URL))}},
		TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 1,
	}
	if told := p.countUntil(t, readiness, probe, 20); told != 20 {
		t.Errorf("readiness was told %d times", told)
	}
	// Of what may happen at the same time, one is taken at random.
	if told := p.countUntil(t, liveness, probe, 100); told == 100 {
		t.Error("liveness is probed while the pod ends")
	}
	p.end(liveness, probe)
	if len(p.failed) > 0 || len(p.running.state.Events) > 0 {
		t.Errorf("the container was told to end, and events are %v", p.running.state.Events)
	}
}
