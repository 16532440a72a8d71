// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	v1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// pods is a provider that keeps pods in a map, and does what a test says.
type pods struct {
	create, update, remove func(*corev1.Pod) error // nil: succeeds

	mu     sync.Mutex
	calls  []string
	pods   map[string]*corev1.Pod
	notify func(*corev1.Pod)
}

func newPods(existing ...*corev1.Pod) *pods {
	p := &pods{pods: make(map[string]*corev1.Pod)}
	for _, pod := range existing {
		p.pods[pod.Namespace+"/"+pod.Name] = pod
	}
	return p
}

func (p *pods) call(method string, pod *corev1.Pod, answer func(*corev1.Pod) error) error {
	p.mu.Lock()
	p.calls = append(p.calls, method+" "+pod.Name)
	p.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(pod)
}

func (p *pods) set(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[pod.Namespace+"/"+pod.Name] = pod.DeepCopy()
}

func (p *pods) CreatePod(_ context.Context, pod *corev1.Pod) error {
	if err := p.call("create", pod, p.create); err != nil {
		return err
	}
	p.set(pod)
	return nil
}

func (p *pods) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	if err := p.call("update", pod, p.update); err != nil {
		return err
	}
	p.set(pod)
	return nil
}

func (p *pods) DeletePod(_ context.Context, pod *corev1.Pod) error {
	if err := p.call("delete", pod, p.remove); err != nil {
		return err
	}
	p.lose(pod.Name)
	return nil
}

func (p *pods) lose(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, "ns/"+name)
}

func (p *pods) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, ok := p.pods[namespace+"/"+name]
	if !ok {
		return nil, errdefs.NotFound("no such pod")
	}
	return pod.DeepCopy(), nil
}

func (p *pods) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

func (p *pods) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*corev1.Pod
	for _, pod := range p.pods {
		out = append(out, pod.DeepCopy())
	}
	return out, nil
}

// expect compares the calls so far, except Get*, with what is wanted.
func (p *pods) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.calls, want) {
		t.Errorf("the provider was called with %v, want %v", p.calls, want)
	}
}

// notifier is pods with NotifyPods.
type notifier struct{ *pods }

func (n notifier) NotifyPods(_ context.Context, cb func(*corev1.Pod)) { n.notify = cb }

// report tells the controller that a pod has this phase.
func (p *pods) report(t *testing.T, name string, phase corev1.PodPhase) {
	t.Helper()
	p.mu.Lock()
	pod, ok := p.pods["ns/"+name]
	p.mu.Unlock()
	if !ok {
		t.Fatalf("the provider has no pod %s", name)
	}
	pod = pod.DeepCopy()
	pod.Status = corev1.PodStatus{Phase: phase}
	p.set(pod)
	p.notify(pod)
	synctest.Wait()
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{NodeName: nodeName, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func running(pod *corev1.Pod) *corev1.Pod {
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	return pod
}

func deleting(pod *corev1.Pod, seconds int64) *corev1.Pod {
	pod.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(time.Duration(seconds) * time.Second)))
	pod.DeletionGracePeriodSeconds = ptr.To(seconds)
	return pod
}

// cluster is an API server with pods, and a controller of a node.
type cluster struct {
	client   *fake.Clientset
	factory  informers.SharedInformerFactory
	informer v1.PodInformer
	events   *record.FakeRecorder
	config   node.PodControllerConfig
}

func newCluster(t *testing.T, provider node.PodLifecycleHandler, existing ...*corev1.Pod) *cluster {
	t.Helper()
	client := fake.NewClientset()
	for _, pod := range existing {
		if err := client.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{client: client, factory: informers.NewSharedInformerFactory(client, 0), events: record.NewFakeRecorder(1000)}
	c.informer = c.factory.Core().V1().Pods()
	c.informer.Informer()
	c.config = node.PodControllerConfig{PodClient: client.CoreV1(), PodInformer: c.informer, EventRecorder: c.events, Provider: provider}
	return c
}

// startInformers is to be called once per test, before what runs with them ends.
func (c *cluster) startInformers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c.factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); c.factory.Shutdown() })
	synctest.Wait()
}

// run starts informers and controller, and returns it with what runs it.
func (c *cluster) run(t *testing.T) (*node.PodController, *runner) {
	t.Helper()
	controller, err := node.NewPodController(c.config)
	if err != nil {
		t.Fatal(err)
	}
	c.startInformers(t)
	r := start(t, func(ctx context.Context) error { return controller.Run(ctx, 2) })
	c.settle()
	return controller, r
}

// settle lets events and rate limiters take their time.
func (*cluster) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (c *cluster) createPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := c.client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.settle()
}

func (c *cluster) updatePod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := c.client.CoreV1().Pods("ns").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.settle()
}

func (c *cluster) removePod(t *testing.T, name string) {
	t.Helper()
	if err := c.client.CoreV1().Pods("ns").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.settle()
}

func (c *cluster) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// expectPhase compares "phase reason" of a pod's status.
func (c *cluster) expectPhase(t *testing.T, name, want string) {
	t.Helper()
	status := c.pod(t, name).Status
	if got := strings.TrimSpace(fmt.Sprintf("%s %s", status.Phase, status.Reason)); got != want {
		t.Errorf("pod %s is %q, want %q", name, got, want)
	}
}

// expectEvents compares the events so far, as "Warning Reason", with what is wanted.
func (c *cluster) expectEvents(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for {
		select {
		case event := <-c.events.Events:
			got = append(got, strings.Join(strings.Fields(event)[:2], " "))
			continue
		default:
		}
		break
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }
