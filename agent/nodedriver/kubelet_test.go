// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// stubKubelet answers over the pod-resources socket.
type stubKubelet struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
	mutex sync.Mutex
	pods  []*podresourcesapi.PodResources
}

func startKubelet(t *testing.T, kubeletDir string, pods ...*podresourcesapi.PodResources) *stubKubelet {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(kubeletDir, "pod-resources"), 0o750); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(kubeletDir, "pod-resources", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k := &stubKubelet{pods: pods}
	server := grpc.NewServer()
	podresourcesapi.RegisterPodResourcesListerServer(server, k)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return k
}

func (k *stubKubelet) List(context.Context, *podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return &podresourcesapi.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// set replaces the pods that it reports.
func (k *stubKubelet) set(pods ...*podresourcesapi.PodResources) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.pods = pods
}

// TestAsk asks the API server for the pods of this node only. If it does not answer, nothing is free.
func TestAsk(t *testing.T) {
	pod, told := pluggedPod("a")
	dir := shortdir.New(t)
	startKubelet(t, dir, told)
	client := fake.NewClientset(pod)
	k := newKubelet(&Options{NodeName: fakecluster.NodeName, Client: client, KubeletDir: dir})
	drivers := []*driverServer{servedWith(t, k.options, "gpu-0")}
	got := k.ask(t.Context(), drivers)
	if got.answer == nil || len(got.report.InUse["gpu.example.com/gpu"]) != 1 || !got.report.Free("gpu.example.com/gpu") || got.report.Asked.IsZero() {
		t.Errorf("%+v", got)
	}
	if selector := client.Actions()[0].(clienttesting.ListAction).GetListRestrictions().Fields.String(); selector != "spec.nodeName="+fakecluster.NodeName {
		t.Errorf("field selector %q", selector)
	}
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("pods are forbidden")
	})
	k.compared = nil
	got = k.ask(t.Context(), drivers)
	if got.podsErr == nil || !strings.Contains(got.whyNothingIsFree(), "pods of the node: pods are forbidden") || got.report.Free != nil || len(got.report.InUse) != 1 {
		t.Errorf("%+v", got)
	}
}

// servedWith is a driver that nothing runs, of which plugin devices are in use.
func servedWith(t *testing.T, options *Options, inUse ...string) *driverServer {
	t.Helper()
	d := newDriverServer(options, gpu0.Driver, modelInventory())
	if err := os.MkdirAll(folder(options.KubeletDir, gpu0.Driver), 0o750); err != nil {
		t.Fatal(err)
	}
	ledger, err := inventory.OpenLedger(LedgerPath(options.KubeletDir, gpu0.Driver))
	if err != nil {
		t.Fatal(err)
	}
	var holds []inventory.Hold
	for _, id := range inUse {
		holds = append(holds, hold(id, inventory.FrontDevicePlugin, gpu0.Driver+"/"+id))
	}
	if err := errors.Join(ledger.Rebuild(inventory.FrontDRA, nil), ledger.Rebuild(inventory.FrontDevicePlugin, holds)); err != nil {
		t.Fatal(err)
	}
	d.ledger.Store(ledger)
	return d
}

// TestPodsAreAskedForWhenNeeded counts the requests of a node at which kubelet is asked again and again.
func TestPodsAreAskedForWhenNeeded(t *testing.T) {
	pod, told := pluggedPod("a")
	dir := shortdir.New(t)
	kubelet := startKubelet(t, dir, told)
	client := fake.NewClientset(pod)
	k := newKubelet(&Options{NodeName: fakecluster.NodeName, Client: client, KubeletDir: dir})
	idle, busy := servedWith(t, k.options), servedWith(t, &Options{KubeletDir: shortdir.New(t)}, "gpu-0")
	asks := func(what string, want bool, drivers ...*driverServer) {
		t.Helper()
		client.ClearActions()
		view := k.ask(t.Context(), drivers)
		if asked := len(client.Actions()) > 0; asked != want || view.podsNotListed == want || view.answer == nil || (view.report.Free != nil) != want {
			t.Errorf("%s: asked %v, want %v: %+v", what, asked, want, view)
		}
	}
	change := func(do func(holds []inventory.Hold) []inventory.Hold) {
		t.Helper()
		if err := busy.ledger.Load().Update(do); err != nil {
			t.Fatal(err)
		}
	}
	asks("no plugin device is in use", false, idle)
	asks("never compared", true, idle, busy)
	asks("nothing changed", false, idle, busy)
	change(func(holds []inventory.Hold) []inventory.Hold {
		holds[0].Serial++
		return holds
	})
	asks("a device was given to somebody else", true, busy)
	asks("nothing changed since", false, busy)
	k.comparedAt = k.comparedAt.Add(-podsInterval)
	asks("long ago", true, busy)
	_, stranger := pluggedPod("b")
	stranger.Containers = nil
	k.judge.Unexplained(podresources.AnswerOf(time.Now(), &podresourcesapi.ListPodResourcesResponse{PodResources: []*podresourcesapi.PodResources{stranger}}), nil)
	asks("kubelet had a pod that the API server does not have", true, busy)
	k.judge = podresources.Judge{}
	asks("nothing is waited for", false, busy)
	k.judge.Unexplained(podresources.AnswerOf(time.Now(), &podresourcesapi.ListPodResourcesResponse{PodResources: []*podresourcesapi.PodResources{told}}), []corev1.Pod{*pod})
	k.judge.Unexplained(podresources.AnswerOf(time.Now(), &podresourcesapi.ListPodResourcesResponse{}), nil)
	if !k.judge.Waits() {
		t.Error("nothing waits for a pod that was deleted and may still run")
	}
	k.judge = podresources.Judge{}
	kubelet.set()
	asks("kubelet leaves a device out", true, busy)
	asks("it still does", true, busy)
	kubelet.set(told)
	asks("kubelet reports it again", true, busy) // the pod was not there for a time
	k.asked = k.asked.Add(-2 * longestGap)
	k.judge = podresources.Judge{}
	asks("kubelet was not asked for a time, and is silent so far", false, busy)
	asks("compared anew", true, busy)
	change(func([]inventory.Hold) []inventory.Hold { return nil })
	asks("the device is free", false, busy)
	unknown := servedWith(t, &Options{KubeletDir: shortdir.New(t)})
	ledger, err := inventory.OpenLedger(filepath.Join(shortdir.New(t), "ledger.json"))
	if err != nil {
		t.Fatal(err)
	}
	unknown.ledger.Store(ledger)
	asks("users are not known", true, busy, unknown)
}

// TestKubeletHangs: a kubelet that accepts connections and does not answer keeps nobody from asking the API server.
func TestKubeletHangs(t *testing.T) {
	dir := shortdir.New(t)
	if err := os.MkdirAll(filepath.Join(dir, "pod-resources"), 0o750); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "pod-resources", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}`))
	}))
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	k := newKubelet(&Options{NodeName: fakecluster.NodeName, Client: client, KubeletDir: dir})
	k.timeout = 3 * time.Second
	got := k.ask(t.Context(), []*driverServer{servedWith(t, k.options, "gpu-0")})
	if got.kubeletErr == nil || got.noSocket || got.podsErr != nil || len(got.pods) != 1 {
		t.Errorf("kubelet: %v, no socket %v, the API server: %v, %d pods", got.kubeletErr, got.noSocket, got.podsErr, len(got.pods))
	}
}
