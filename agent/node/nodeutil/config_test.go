// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/nodeutil"
)

// withProvider makes a node, and fails the test if it cannot be made.
func withProvider(t *testing.T, opts ...nodeutil.NodeOpt) (*nodeutil.Node, *corev1.Node) {
	t.Helper()
	var spec *corev1.Node
	n, err := nodeutil.NewNode("n", func(config nodeutil.ProviderConfig) (nodeutil.Provider, node.NodeProvider, error) {
		spec = config.Node
		return &provider{make(chan *corev1.Pod, 1)}, nil, nil
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return n, spec
}

// ends runs a node whose context has ended, so that nothing is left of what NewNode started.
func ends(t *testing.T, n *nodeutil.Node) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
}

// TestDefaults has the configuration that options find, and the node that is registered without any.
func TestDefaults(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	var found nodeutil.NodeConfig
	n, spec := withProvider(t, func(c *nodeutil.NodeConfig) error { found = *c; return nil }, nodeutil.WithClient(fake.NewClientset()))
	ends(t, n)
	if found.NumWorkers != goruntime.NumCPU() || found.InformerResyncPeriod != time.Minute || found.HTTPListenAddr != ":10250" || found.KubeconfigPath != "" ||
		found.Client != nil || found.Handler != nil || found.TLSConfig != nil || found.EventRecorder != nil || found.SkipDownwardAPIResolution {
		t.Errorf("got %+v", found)
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"type": "virtual-kubelet", "kubernetes.io/role": "agent", "kubernetes.io/hostname": "n"}},
		Status: corev1.NodeStatus{Phase: corev1.NodePending, Conditions: []corev1.NodeCondition{
			{Type: "Ready"}, {Type: "DiskPressure"}, {Type: "MemoryPressure"}, {Type: "PIDPressure"}, {Type: "NetworkUnavailable"},
		}},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("node: want -, got +\n%s", diff)
	}
	own := nodeutil.NodeConfig{Client: fake.NewClientset(), HTTPListenAddr: ":0", NodeSpec: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, NumWorkers: 1}
	n, spec = withProvider(t, nodeutil.WithNodeConfig(own))
	ends(t, n)
	if spec.Name != "own" || len(spec.Labels) > 0 {
		t.Errorf("defaults are left in a configuration that replaces them: %v", spec)
	}
}

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://example.com"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

// TestDefaultClient is made of the kubeconfig that the environment names.
func TestDefaultClient(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	good, bad := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "bad")
	for path, text := range map[string]string{good: kubeconfig, bad: "{"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{good: "", bad: "error loading config file", filepath.Join(t.TempDir(), "none"): "unable to load in-cluster configuration", "": "unable to load in-cluster configuration"} {
		client, err := nodeutil.ClientsetFromEnv(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
		if want == "" && client.CoreV1().RESTClient().Get().URL().Host != "example.com" {
			t.Errorf("a client of %s", client.CoreV1().RESTClient().Get().URL())
		}
		t.Setenv("KUBECONFIG", path)
		var found nodeutil.NodeConfig
		stop := errors.New("enough")
		if _, err := nodeutil.NewNode("n", nil, func(c *nodeutil.NodeConfig) error { found = *c; return stop }); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if found.KubeconfigPath != path || (found.Client != nil) != (want == "") {
			t.Errorf("%q: path %q, client %v", path, found.KubeconfigPath, found.Client)
		}
	}
}

// TestTLS has the configuration of the server, which asks for certificates, and demands them where authorities are given.
func TestTLS(t *testing.T) {
	certificate, key := keyPair(t)
	none := filepath.Join(t.TempDir(), "none")
	var config nodeutil.NodeConfig
	if err := nodeutil.WithTLSConfig(nodeutil.WithKeyPairFromPath(certificate, key), nodeutil.WithKeyPairFromPath(certificate, key))(&config); err != nil {
		t.Fatal(err)
	}
	got := config.TLSConfig
	if got.MinVersion != tls.VersionTLS12 || got.ClientAuth != tls.RequestClientCert || got.ClientCAs != nil || len(got.Certificates) != 2 {
		t.Errorf("got %+v", got)
	}
	for _, insecure := range tls.InsecureCipherSuites() {
		for _, id := range got.CipherSuites {
			if id == insecure.ID {
				t.Errorf("insecure cipher suite %s", insecure.Name)
			}
		}
	}
	if len(got.CipherSuites) == 0 {
		t.Error("no cipher suites")
	}
	if err := nodeutil.WithTLSConfig(nodeutil.WithCAFromPath(certificate))(&config); err != nil {
		t.Fatal(err)
	}
	if got := config.TLSConfig; got.ClientAuth != tls.RequireAndVerifyClientCert || got.ClientCAs == nil {
		t.Errorf("with authorities: %+v", got)
	}
	for name, option := range map[string]func(*tls.Config) error{
		"no file of authorities": nodeutil.WithCAFromPath(none), "a key as authority": nodeutil.WithCAFromPath(key),
		"no certificate": nodeutil.WithKeyPairFromPath(none, key), "no key": nodeutil.WithKeyPairFromPath(certificate, none),
	} {
		before := config.TLSConfig
		if err := nodeutil.WithTLSConfig(option)(&config); err == nil || config.TLSConfig != before {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWebhookAuthRefuses has what cannot be made of options.
func TestWebhookAuthRefuses(t *testing.T) {
	own := errors.New("no such file")
	for want, option := range map[string]nodeutil.WebhookAuthOption{
		"authentication: ": func(c *nodeutil.WebhookAuthConfig) error { c.AuthnConfig.WebhookRetryBackoff = nil; return nil },
		"authorization: ":  func(c *nodeutil.WebhookAuthConfig) error { c.AuthzConfig.WebhookRetryBackoff = nil; return nil },
		own.Error():        func(*nodeutil.WebhookAuthConfig) error { return own },
	} {
		if auth, err := nodeutil.WebhookAuth(fake.NewClientset(), "node-1", option); err == nil || !strings.HasPrefix(err.Error(), want) || auth != nil {
			t.Errorf("%v, %v, want %s", auth, err, want)
		}
	}
	if auth, err := nodeutil.WebhookAuth(fake.NewClientset(), "node-1"); err != nil || auth == nil {
		t.Errorf("without options: %v, %v", auth, err)
	}
}

// TestPodControllerOptions run in order, after all else is set.
func TestPodControllerOptions(t *testing.T) {
	recorder := record.NewFakeRecorder(1)
	var order []string
	_, _ = withProvider(t, nodeutil.WithClient(fake.NewClientset()),
		func(c *nodeutil.NodeConfig) error {
			c.EventRecorder, c.SkipDownwardAPIResolution = recorder, true
			return nil
		},
		nodeutil.WithPodControllerConfigOverrides(func(c *node.PodControllerConfig) error {
			order = append(order, "first")
			if c.EventRecorder != recorder || !c.SkipDownwardAPIResolution || c.Provider == nil || c.PodClient == nil || c.PodInformer == nil ||
				c.ConfigMapInformer == nil || c.SecretInformer == nil || c.ServiceInformer == nil {
				t.Errorf("got %+v", c)
			}
			return nil
		}),
		nodeutil.WithPodControllerConfigOverrides(func(*node.PodControllerConfig) error { order = append(order, "second"); return nil }))
	if diff := cmp.Diff([]string{"first", "second"}, order); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	n, _ := withProvider(t, nodeutil.WithClient(fake.NewClientset()), nodeutil.WithPodControllerConfigOverrides(func(c *node.PodControllerConfig) error {
		if c.EventRecorder == nil || c.SkipDownwardAPIResolution {
			t.Errorf("by default: %+v", c)
		}
		return nil
	}))
	ends(t, n)
}

// TestReadyNode has the status and the lease of a node that has become ready, and lists the pods of that node only.
func TestReadyNode(t *testing.T) {
	client := fake.NewClientset()
	n, _ := withProvider(t, nodeutil.WithClient(client))
	if err := n.WaitReady(t.Context(), time.Nanosecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before it runs: %v", err)
	}
	select {
	case <-n.Ready():
		t.Error("ready before it runs")
	default:
	}
	running(t, n)
	if err := n.WaitReady(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	<-n.Ready()
	awaitReady(t, client)
	stored, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range stored.Status.Conditions {
		ready := condition.Type == corev1.NodeReady
		if ready != (condition.Status == corev1.ConditionTrue) || ready && (condition.Reason != "KubeletReady" || condition.LastHeartbeatTime.IsZero() || condition.LastTransitionTime.IsZero()) {
			t.Errorf("condition %+v", condition)
		}
	}
	if stored.Status.Phase != corev1.NodeRunning {
		t.Errorf("phase %s", stored.Status.Phase)
	}
	fakecluster.Eventually(t, "the node has a lease", func() bool {
		_, err := client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil
	})
	listed := false
	for _, action := range client.Actions() {
		if list, isList := action.(clienttesting.ListAction); isList && action.GetResource().Resource == "pods" {
			listed = true
			if got := list.GetListRestrictions().Fields.String(); got != "spec.nodeName=n" {
				t.Errorf("pods are listed by %q", got)
			}
		}
	}
	if !listed {
		t.Error("pods are not listed")
	}
}

// TestStatusErrorHandler is called where the node is gone.
func TestStatusErrorHandler(t *testing.T) {
	client := fake.NewClientset()
	handled := make(chan error, 1)
	n, _ := withProvider(t, nodeutil.WithClient(client), func(c *nodeutil.NodeConfig) error {
		c.NodeStatusUpdateErrorHandler = func(_ context.Context, err error) error {
			select {
			case handled <- err:
			default:
			}
			return err
		}
		return nil
	})
	var calls atomic.Int32
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		calls.Add(1)
		return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), "n")
	})
	running(t, n)
	select {
	case err := <-handled:
		if !apierrors.IsNotFound(err) {
			t.Errorf("handled %v", err)
		}
	case <-time.After(time.Minute):
		t.Errorf("the handler was not called, after %d patches", calls.Load())
	}
}
