// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/fakedriver"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/internal/dev/fakeapi"
)

func TestMain(m *testing.M) {
	if os.Getenv(stuckFolder) != "" {
		os.Exit(serveStuck())
	}
	leakcheck.Main(m)
}

const (
	nodeName = "virtual-1"
	gpus     = "gpu.example.com"
)

// pods is a provider that keeps pods in a map, and does what a test says.
type pods struct {
	create func(*corev1.Pod) error // nil: succeeds
	// forgets tells that a deleted pod is gone before its end is reported.
	forgets bool

	mu      sync.Mutex
	known   map[string]*corev1.Pod // by name
	created []string               // names with the CDI devices of their containers
	devices Devices
	notify  func(*corev1.Pod)
}

func (p *pods) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	if p.create != nil {
		if err := p.create(pod); err != nil {
			return err
		}
	}
	devices, err := p.devices(ctx, pod, "main")
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.created = append(p.created, fmt.Sprint(pod.Name, " ", devices))
	p.mu.Unlock()
	p.report(pod, corev1.PodRunning)
	return nil
}

// report makes a phase that of a pod.
func (p *pods) report(pod *corev1.Pod, phase corev1.PodPhase) {
	pod = pod.DeepCopy()
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
	p.mu.Lock()
	p.known[pod.Name] = pod
	notify := p.notify
	p.mu.Unlock()
	notify(pod)
}

func (p *pods) UpdatePod(context.Context, *corev1.Pod) error { return nil }

func (p *pods) DeletePod(_ context.Context, pod *corev1.Pod) error {
	known, err := p.get(pod.Name)
	if err != nil {
		return err
	}
	p.report(known, corev1.PodSucceeded)
	if p.forgets {
		p.lose(pod.Name)
	}
	return nil
}

func (p *pods) lose(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, name)
}

func (p *pods) get(name string) (*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod, ok := p.known[name]; ok {
		return pod, nil
	}
	return nil, errdefs.NotFound("no such pod")
}

func (p *pods) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) { return p.get(name) }

func (p *pods) GetPodStatus(_ context.Context, _, name string) (*corev1.PodStatus, error) {
	pod, err := p.get(name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

func (p *pods) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*corev1.Pod
	for _, pod := range p.known {
		out = append(out, pod)
	}
	return out, nil
}

func (p *pods) NotifyPods(_ context.Context, cb func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = cb
}

func (p *pods) creations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.created)
}

// machine is a node's folder, its driver, and the API server.
type machine struct {
	folder string
	client *fake.Clientset
	driver *fakedriver.Driver
	node   *Node // the latest one that runs
	stop   func()
}

// newMachine has a driver that is registered, and no node yet.
func newMachine(t *testing.T, objects ...runtime.Object) *machine {
	t.Helper()
	folder := shortdir.New(t)
	m := &machine{folder: folder, client: fakecluster.NewClient(objects...), stop: func() {}}
	if err := os.MkdirAll(RegistrationDir(folder), 0o750); err != nil {
		t.Fatal(err)
	}
	driver, err := fakedriver.Start(RegistrationDir(folder), gpus, fakedriver.Speaking)
	if err != nil {
		t.Fatal(err)
	}
	m.driver = driver
	t.Cleanup(m.driver.Stop)
	return m
}

// run runs the node until stop, or until the test ends.
func (m *machine) run(t *testing.T, provider *pods) {
	t.Helper()
	if provider.known == nil {
		provider.known = make(map[string]*corev1.Pod)
	}
	n, err := New(Options{
		Client: m.client, Folder: m.folder, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}},
		NewProvider: func(devices Devices, _ record.EventRecorder) (Provider, error) {
			provider.devices = devices
			return provider, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	m.node, m.stop = n, func() { cancel(); running.Wait() }
	t.Cleanup(m.stop)
	<-n.Ready()
	fakeapi.AwaitWatches(t, m.client)
}

// claim is allocated, and reserved for pods.
func claim(uid string, pods ...string) *resourceapi.ResourceClaim {
	out := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	out.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "a", Driver: gpus, Pool: "p", Device: uid}},
	}}
	for _, pod := range pods {
		out.Status.ReservedFor = append(out.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return out
}

// pod is bound to the node, and its container has the claims.
func pod(name string, claims ...string) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: nodeName, RestartPolicy: corev1.RestartPolicyNever},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	container := corev1.Container{Name: "main"}
	for _, claim := range claims {
		out.Spec.ResourceClaims = append(out.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
		container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: claim})
	}
	out.Spec.Containers = []corev1.Container{container}
	return out
}

func (m *machine) phase(t *testing.T, name string) corev1.PodPhase {
	t.Helper()
	found, err := m.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Status.Phase
}

func (m *machine) awaitPhase(t *testing.T, name string, phase corev1.PodPhase) {
	t.Helper()
	fakecluster.Eventually(t, fmt.Sprint(name, " is ", phase), func() bool { return m.phase(t, name) == phase })
}

// prepared compares what the driver has prepared.
func (m *machine) prepared(t *testing.T, want ...string) {
	t.Helper()
	if got := m.driver.Holds(); !slices.Equal(got, want) {
		t.Errorf("prepared %q, want %q", got, want)
	}
}

func (m *machine) awaitPrepared(t *testing.T, want ...string) {
	t.Helper()
	fakecluster.Eventually(t, fmt.Sprintf("prepared: %q", want), func() bool { return slices.Equal(m.driver.Holds(), want) })
}

func checkpointOf(folder string) string { return filepath.Join(folder, "claims.json") }
