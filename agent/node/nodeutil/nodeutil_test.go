// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/cert"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/api"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/node/nodeutil"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// provider has the pods that it was told to create.
type provider struct{ created chan *corev1.Pod }

func (p *provider) CreatePod(_ context.Context, pod *corev1.Pod) error {
	p.created <- pod
	return nil
}
func (*provider) UpdatePod(context.Context, *corev1.Pod) error { return nil }
func (*provider) DeletePod(context.Context, *corev1.Pod) error { return nil }
func (*provider) GetPod(context.Context, string, string) (*corev1.Pod, error) {
	return nil, errdefs.NotFound("no pod")
}
func (*provider) GetPodStatus(context.Context, string, string) (*corev1.PodStatus, error) {
	return nil, errdefs.NotFound("no pod")
}
func (*provider) GetPods(context.Context) ([]*corev1.Pod, error) { return nil, nil }
func (*provider) NotifyPods(context.Context, func(*corev1.Pod))  {}
func (*provider) GetContainerLogs(context.Context, string, string, string, api.ContainerLogOpts) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("a log")), nil
}
func (*provider) RunInContainer(context.Context, string, string, string, []string, api.AttachIO) error {
	return nil
}
func (*provider) AttachToContainer(context.Context, string, string, string, api.AttachIO) error {
	return nil
}
func (*provider) GetStatsSummary(context.Context) (*statsv1alpha1.Summary, error) { return nil, nil }
func (*provider) GetMetricsResource(context.Context) ([]*dto.MetricFamily, error) { return nil, nil }
func (*provider) PortForward(context.Context, string, string, int32, io.ReadWriteCloser) error {
	return nil
}

// keyPair writes a certificate for the loopback address.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	c, k, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.WriteFile(certificate, c, 0o600), os.WriteFile(key, k, 0o600)); err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// freeAddress is one that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// awaitReady waits until the node that is stored says that it is ready.
func awaitReady(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stored, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range stored.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && stored.Status.Phase == corev1.NodeRunning {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node is not ready: %+v", stored.Status)
		}
	}
}

// running runs a node until the test ends.
func running(t *testing.T, n *nodeutil.Node) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil || n.Err() != nil {
			t.Errorf("Run: %v, Err: %v", err, n.Err())
		}
	})
	if err := n.WaitReady(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestNode(t *testing.T) {
	certificate, key := keyPair(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid", ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main"}}},
	}
	client := fake.NewClientset(pod)
	p := &provider{make(chan *corev1.Pod, 1)}
	mux := http.NewServeMux()
	var lists nodeutil.ProviderConfig
	at := freeAddress(t)
	n, err := nodeutil.NewNode("n",
		func(config nodeutil.ProviderConfig) (nodeutil.Provider, node.NodeProvider, error) {
			config.Node.Labels["provider"] = "test"
			lists = config
			return p, nil, nil
		},
		nodeutil.WithClient(client), nodeutil.AttachProviderRoutes(mux),
		nodeutil.WithTLSConfig(nodeutil.WithKeyPairFromPath(certificate, key)),
		func(config *nodeutil.NodeConfig) error {
			config.HTTPListenAddr, config.Handler = at, nodeutil.WithAuth(nodeutil.NoAuth(), mux)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	running(t, n)

	if created := <-p.created; created.Name != "a" {
		t.Errorf("created %s", created.Name)
	}
	if pods, err := lists.Pods.Pods("ns").List(labels.Everything()); err != nil || len(pods) != 1 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
	stored, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stored.Labels["provider"] != "test" || stored.Labels["kubernetes.io/hostname"] != "n" {
		t.Errorf("labels %v", stored.Labels)
	}
	awaitReady(t, client)

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a certificate of the test
	defer transport.CloseIdleConnections()
	for path, want := range map[string]string{"/containerLogs/ns/a/main": "a log", "/pods": `"name":"a"`, "/runningpods/": `"items":[]`} {
		answer, err := (&http.Client{Transport: transport}).Get("https://" + at + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %q, %v", path, answer.StatusCode, body, err)
		}
	}
}

// TestRunEnds says why a node did not become ready.
func TestRunEnds(t *testing.T) {
	made := func(nodeutil.ProviderConfig) (nodeutil.Provider, node.NodeProvider, error) {
		return &provider{}, nil, nil
	}
	n, err := nodeutil.NewNode("n", made, nodeutil.WithClient(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); !errors.Is(err, context.Canceled) || !errors.Is(n.Err(), context.Canceled) {
		t.Errorf("Run: %v, Err: %v", err, n.Err())
	}
	if err := n.WaitReady(t.Context(), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitReady: %v", err)
	}
	select {
	case <-n.Ready():
		t.Error("ready")
	default:
	}
}

func TestNewNodeErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	failed := errors.New("failed")
	made := func(nodeutil.ProviderConfig) (nodeutil.Provider, node.NodeProvider, error) {
		return &provider{}, nil, nil
	}
	client := nodeutil.WithClient(fake.NewClientset())
	for name, c := range map[string]struct {
		provider nodeutil.NewProviderFunc
		options  []nodeutil.NodeOpt
		want     string
	}{
		"no client": {made, nil, "a client is required"},
		"address":   {made, []nodeutil.NodeOpt{client, func(c *nodeutil.NodeConfig) error { c.HTTPListenAddr = "10250"; return nil }}, "HTTPListenAddr"},
		"provider": {func(nodeutil.ProviderConfig) (nodeutil.Provider, node.NodeProvider, error) { return nil, nil, failed },
			[]nodeutil.NodeOpt{client}, "provider: failed"},
		"option":   {made, []nodeutil.NodeOpt{func(*nodeutil.NodeConfig) error { return failed }}, "failed"},
		"override": {made, []nodeutil.NodeOpt{client, nodeutil.WithPodControllerConfigOverrides(func(*node.PodControllerConfig) error { return failed })}, "failed"},
		"CA":       {made, []nodeutil.NodeOpt{nodeutil.WithTLSConfig(nodeutil.WithCACert([]byte("nothing")))}, "no certificate"},
	} {
		if _, err := nodeutil.NewNode("n", c.provider, c.options...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// allowed is an Auth of a user who may do one thing, and of one who is unknown.
type allowed struct {
	nodeutil.NodeRequestAttr
	authorizer.Authorizer // nil: what it does beyond Authorize is not asked for
	what                  string
}

func (a allowed) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	return &authenticator.Response{User: &user.DefaultInfo{Name: "u"}}, r.Header.Get("User") != "", nil
}

func (a allowed) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.what == "broken" {
		return authorizer.DecisionNoOpinion, "", errors.New("no answer")
	}
	if asked.GetVerb()+" "+asked.GetResource()+"/"+asked.GetSubresource()+" "+asked.GetName() == a.what {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// TestWithAuth asks what kubelet asks of the API server.
func TestWithAuth(t *testing.T) {
	for _, c := range []struct {
		request, may string
		code         int
	}{
		{"GET /pods", "get nodes/pods n", 200},
		{"GET /pods", "get nodes/proxy n", 200},
		{"GET /pods", "get nodes/stats n", 403},
		{"GET /runningpods/", "get nodes/pods n", 200},
		{"GET /healthz", "get nodes/healthz n", 200},
		{"GET /podsecret", "get nodes/pods n", 403},
		{"GET //pods", "get nodes/pods n", 403},
		{"GET /stats/summary", "get nodes/stats n", 200},
		{"GET /stats/summary", "get nodes/proxy n", 403},
		{"GET /statsman", "get nodes/stats n", 403},
		{"GET /metrics/resource", "get nodes/metrics n", 200},
		{"GET /logs/", "get nodes/log n", 200},
		{"GET /containerLogs/ns/p/c", "get nodes/proxy n", 200},
		{"GET /containerLogs/ns/p/c", "get nodes/log n", 403},
		{"POST /exec/ns/p/c", "create nodes/proxy n", 200},
		{"GET /exec/ns/p/c", "create nodes/proxy n", 403},
		{"PUT /pods", "update nodes/pods n", 200},
		{"PATCH /pods", "patch nodes/pods n", 200},
		{"DELETE /pods", "delete nodes/pods n", 200},
		{"PROPFIND /pods", "get nodes/pods n", 403},
		{"GET /pods", "broken", 500},
	} {
		handler := nodeutil.WithAuth(nodeutil.InstrumentAuth(allowed{NodeRequestAttr: nodeutil.NodeRequestAttr{NodeName: "n"}, what: c.may}),
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		method, path, _ := strings.Cut(c.request, " ")
		for known, want := range map[string]int{"u": c.code, "": http.StatusUnauthorized} {
			recorder := httptest.NewRecorder()
			request := httptest.NewRequest(method, "http://n"+path, nil)
			request.Header.Set("User", known)
			handler.ServeHTTP(recorder, request)
			if recorder.Code != want {
				t.Errorf("%s of %q who may %s: %d %s, want %d", c.request, known, c.may, recorder.Code, recorder.Body, want)
			}
		}
	}
}

func TestFilters(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	other, ours := nodeutil.FilterPodsForNodeName("m"), nodeutil.FilterPodsForNodeName("n")
	for name, c := range map[string]struct {
		filter node.PodEventFilterFunc
		want   bool
	}{
		"ours": {ours, true}, "other": {other, false}, "either": {nodeutil.PodFilters(other, ours), true}, "none": {nodeutil.PodFilters(), false},
	} {
		if got := c.filter(t.Context(), pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
