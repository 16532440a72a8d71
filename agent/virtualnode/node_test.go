// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// TestPods follows two pods that share a claim.
func TestPods(t *testing.T) {
	m := newMachine(t, claim("own", "a"), claim("shared", "a", "b"), pod("a", "own", "shared"), pod("b", "shared"))
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodRunning)
	m.awaitPhase(t, "b", corev1.PodRunning)
	m.prepared(t, "own", "shared")
	want := "a [gpu.example.com/claim=own-0 gpu.example.com/claim=own-1 gpu.example.com/claim=shared-0 gpu.example.com/claim=shared-1]"
	if !slices.Contains(p.creations(), want) {
		t.Errorf("created %q, want %q", p.creations(), want)
	}
	known, _ := p.get("a")
	p.report(known, corev1.PodSucceeded)
	m.awaitPhase(t, "a", corev1.PodSucceeded)
	m.prepared(t, "shared")
	known, _ = p.get("b")
	p.report(known, corev1.PodFailed)
	m.awaitPhase(t, "b", corev1.PodFailed)
	m.prepared(t)
}

// TestAnEndWaitsForTheDriver, also if the provider has forgotten the pod by then, and is
// told again.
func TestAnEndWaitsForTheDriver(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		m := newMachine(t, claim("one", "a"), pod("a", "one"))
		p := &pods{forgets: forgets}
		m.run(t, p)
		m.awaitPhase(t, "a", corev1.PodRunning)
		m.driver.Set(func() { m.driver.Refuse["unprepare one"] = "busy" })
		deleted := pod("a", "one")
		deleted.Status.Phase = corev1.PodRunning
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](3600)
		if _, err := m.client.CoreV1().Pods("ns").Update(t.Context(), deleted, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		calls := 0
		fakecluster.Eventually(t, "attempts to unprepare", func() bool {
			for _, call := range m.driver.Taken() {
				if call == "unprepare one" {
					calls++
				}
			}
			return calls >= 5
		})
		deleted.Labels = map[string]string{"changed": "true"}
		if _, err := m.client.CoreV1().Pods("ns").Update(t.Context(), deleted, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		calls = 0
		fakecluster.Eventually(t, "more attempts to unprepare", func() bool { calls += len(m.driver.Taken()); return calls >= 3 })
		if phase := m.phase(t, "a"); phase != corev1.PodRunning {
			t.Errorf("the pod is %s, although its claim is prepared", phase)
		}
		m.driver.Set(func() { clear(m.driver.Refuse) })
		fakecluster.Eventually(t, "the pod's end", func() bool {
			list, err := m.client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
			return err == nil && len(list.Items) == 0
		})
		m.prepared(t)
		m.stop()
	}
}

// TestAPodThatCannotRun is released before it is Failed, and one that may run later is not.
func TestAPodThatCannotRun(t *testing.T) {
	m := newMachine(t, claim("one", "a"), claim("two", "b"), pod("a", "one"), pod("b", "two"))
	p := &pods{create: func(pod *corev1.Pod) error {
		if pod.Name == "a" {
			return errdefs.InvalidInput("never")
		}
		return errors.New("not now")
	}}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodFailed)
	if slices.Contains(m.driver.Holds(), "one") {
		t.Error("the pod is Failed, and its claim is prepared")
	}
	// The provider does not have it. The node does, as kubelet has pods that it refused.
	fakecluster.Eventually(t, "the node knows that the pod is Failed", func() bool {
		known, err := m.node.GetPod(t.Context(), "ns", "a")
		return err == nil && known.Status.Phase == corev1.PodFailed
	})
	all, err := m.node.GetPods(t.Context())
	if names := namesOf(all); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("the node knows pods %q (error %v), want a and b", names, err)
	}
	if known, err := m.node.GetPod(t.Context(), "ns", "c"); !errdefs.IsNotFound(err) {
		t.Errorf("a pod that does not exist is %v (error %v)", known, err)
	}
	m.awaitPrepared(t, "two")
	if err := m.client.CoreV1().Pods("ns").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitPrepared(t)
}

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// TestPodsAsTheirProviderHasThem: the provider knows more than Kubernetes of a pod that it runs.
func TestPodsAsTheirProviderHasThem(t *testing.T) {
	m := newMachine(t, pod("a"))
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodRunning)
	p.mu.Lock()
	p.known["a"] = p.known["a"].DeepCopy()
	p.known["a"].Status.Message = "only the provider says so"
	p.mu.Unlock()
	one, err := m.node.GetPod(t.Context(), "ns", "a")
	if err != nil || one.Status.Message == "" {
		t.Errorf("the pod is %v (error %v)", one, err)
	}
	all, err := m.node.GetPods(t.Context())
	if err != nil || len(all) != 1 || all[0].Status.Message == "" {
		t.Errorf("the pods are %v (error %v)", all, err)
	}
}

// TestRestart: the claims of pods that went, or that the new provider does not run again, are
// unprepared. The others are prepared again, once.
func TestRestart(t *testing.T) {
	always := pod("always", "one")
	always.Spec.RestartPolicy = corev1.RestartPolicyAlways
	m := newMachine(t, claim("one", "always"), claim("two", "never"), claim("three", "gone"), always, pod("never", "two"), pod("gone", "three"))
	m.run(t, &pods{})
	for _, name := range []string{"always", "never", "gone"} {
		m.awaitPhase(t, name, corev1.PodRunning)
	}
	m.stop()
	m.prepared(t, "one", "three", "two")
	if err := m.client.CoreV1().Pods("ns").Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.driver.Taken()
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "never", corev1.PodFailed)
	m.awaitPrepared(t, "one")
	fakecluster.Eventually(t, "the pod runs again", func() bool { return len(p.creations()) == 1 })
	calls := slices.DeleteFunc(m.driver.Taken(), func(call string) bool { return !strings.Contains(call, "one") })
	if !slices.Equal(calls, []string{"prepare one"}) {
		t.Errorf("calls %q for the claim of a pod that stays", calls)
	}
}

// TestClaimsOfPodsThatRunOn are prepared again when the node starts: a driver may have lost them with a reboot.
func TestClaimsOfPodsThatRunOn(t *testing.T) {
	m := newMachine(t, claim("one", "a"), pod("a", "one"))
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodRunning)
	m.stop()
	m.driver.Stop()
	m.driver.Taken()
	m.run(t, &pods{known: p.known})
	if err := m.driver.Listen(); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "the claim is prepared again", func() bool { return slices.Equal(m.driver.Taken(), []string{"prepare one"}) })
	m.prepared(t, "one")
}

// TestAPodThatTheProviderLost is not released while Kubernetes takes it for running.
func TestAPodThatTheProviderLost(t *testing.T) {
	m := newMachine(t, claim("one", "a"), pod("a", "one"))
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodRunning)
	p.lose("a")
	if _, err := m.client.CoreV1().Pods("ns").Create(t.Context(), pod("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitPhase(t, "b", corev1.PodRunning) // and something happened to look at
	m.prepared(t, "one")
	changed := pod("a", "one")
	changed.Status.Phase, changed.Labels = corev1.PodRunning, map[string]string{"changed": "true"}
	if _, err := m.client.CoreV1().Pods("ns").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitPhase(t, "a", corev1.PodFailed)
	m.awaitPrepared(t)
}

// TestAMissingDriver holds up the pod, which gets an Event, until it is there.
func TestAMissingDriver(t *testing.T) {
	m := newMachine(t, claim("one", "a"), pod("a", "one"))
	m.driver.Stop()
	m.run(t, &pods{})
	fakecluster.Eventually(t, "an Event", func() bool {
		events, err := m.client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return event.InvolvedObject.Name == "a" && event.Reason == "FailedPrepareDynamicResources" && strings.Contains(event.Message, "driver gpu.example.com: not registered")
		})
	})
	if phase := m.phase(t, "a"); phase != corev1.PodPending {
		t.Errorf("the pod is %s", phase)
	}
	if err := m.driver.Listen(); err != nil {
		t.Fatal(err)
	}
	m.awaitPhase(t, "a", corev1.PodRunning)
}

func TestRunFails(t *testing.T) {
	for want, c := range map[string]func(t *testing.T, o *Options){
		"damaged": func(t *testing.T, o *Options) {
			t.Helper()
			if err := os.WriteFile(checkpointOf(o.Folder), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"provider: no": func(_ *testing.T, o *Options) {
			o.NewProvider = func(Devices, record.EventRecorder) (Provider, error) { return nil, errors.New("no") }
		},
		"name": func(_ *testing.T, o *Options) { o.Node.Name = "Not A Name" },
		"nodes are not yours": func(_ *testing.T, o *Options) { // which only the API server says
			o.Client.(*fake.Clientset).PrependReactor("*", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), nodeName, errors.New("nodes are not yours"))
			})
		},
	} {
		m := newMachine(t)
		o := Options{Client: m.client, Folder: m.folder, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}},
			NewProvider: func(Devices, record.EventRecorder) (Provider, error) { return &pods{}, nil }}
		c(t, &o)
		n, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Client is required") {
		t.Errorf("got %v", err)
	}
}
