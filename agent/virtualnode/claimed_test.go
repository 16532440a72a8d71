// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// newTestClaimed has no drivers. Kubernetes has these pods, and the provider none.
func newTestClaimed(t *testing.T, inner Provider, stored ...*corev1.Pod) *claimProvider {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range stored {
		if err := indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return newClaimProvider(inner, nil, corelisters.NewPodLister(indexer))
}

func ended(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

// TestSweepingAndCreating exclude each other, for one pod.
func TestSweepingAndCreating(t *testing.T) {
	c := newTestClaimed(t, &pods{})
	if !c.startSweeping("swept") {
		t.Fatal("a pod that nobody deals with is not swept")
	}
	if err := c.CreatePod(t.Context(), pod("swept")); err == nil || !strings.Contains(err.Error(), "its claims are being released") {
		t.Errorf("got %v", err)
	}
	if !c.startCreating("created") {
		t.Fatal("a pod that nobody deals with is not created")
	}
	c.driverCalls["called"] = &driverCall{}
	c.markEnding(ended(pod("ending")))
	for _, uid := range []types.UID{"swept", "created", "called", "ending"} {
		if c.startSweeping(uid) {
			t.Errorf("the pod %s is swept", uid)
		}
	}
	c.endCreating("created")
	if !c.startSweeping("created") {
		t.Error("a pod is not swept when it was created")
	}
}

// failing is a provider that does not know its pods.
type failing struct{ *pods }

func (failing) GetPods(context.Context) ([]*corev1.Pod, error) { return nil, errors.New("not now") }

// TestWhoseClaimsStay: those of pods that have not ended, of pods that the provider has, and of all while that is not
// known.
func TestWhoseClaimsStay(t *testing.T) {
	p := &pods{known: map[string]*corev1.Pod{"provided": pod("provided")}}
	for name, c := range map[string]struct {
		inner  Provider
		stored []*corev1.Pod
		uid    types.UID
		stay   bool
	}{
		"runs":                                {p, []*corev1.Pod{pod("a")}, "a", true},
		"has ended":                           {p, []*corev1.Pod{ended(pod("a"))}, "a", false},
		"is gone":                             {p, nil, "a", false},
		"is gone, and the provider has it":    {p, nil, "provided", true},
		"is gone, and the provider is silent": {failing{p}, nil, "a", true},
	} {
		claimed := newTestClaimed(t, c.inner, c.stored...)
		if got := claimed.isActive(t.Context(), c.uid); got != c.stay {
			t.Errorf("a pod that %s: claims stay: %v", name, got)
		}
		if swept := claimed.sweeping[c.uid]; swept == c.stay {
			t.Errorf("a pod that %s: is swept: %v", name, swept)
		}
	}
}

// TestReportsAreForgotten when their pods are gone, or others have their names. The health of the devices of another pod is
// not told either.
func TestReportsAreForgotten(t *testing.T) {
	another := pod("another")
	another.UID = "new"
	c := newTestClaimed(t, &pods{}, pod("here"), another)
	for _, name := range []string{"here", "gone", "another"} {
		c.reported[types.UID(name)] = pod(name)
		c.setRefusal(types.UID(name), errors.New("no"))
	}
	c.forgetDeleted()
	if len(c.reported) != 1 || c.reported["here"] == nil || len(c.refusals) != 1 || c.refusalOf("here") == nil {
		t.Errorf("known are %v, refused %v", c.reported, c.refusals)
	}
	old := pod("another")
	if got := c.withHealth(old); got != old {
		t.Errorf("the pod has the health of another one: %v", got)
	}
}

// TestOnlyItsOwnPods: the node asks for its pods and no others.
func TestOnlyItsOwnPods(t *testing.T) {
	m := newMachine(t)
	m.run(t, &pods{})
	lists := 0
	for _, action := range m.client.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok && action.GetResource().Resource == "pods" {
			lists++
			if got := list.GetListRestrictions().Fields.String(); got != "spec.nodeName="+nodeName {
				t.Errorf("pods are asked for by %q", got)
			}
		}
	}
	if lists == 0 {
		t.Error("pods were not asked for")
	}
}

// TestRetry: a pod is tried again soon, and then less often.
func TestRetry(t *testing.T) {
	for tried, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 6: 3200 * time.Millisecond, 7: 5 * time.Second, 1000: 5 * time.Second} {
		if pause, err := retry(t.Context(), "", tried, time.Time{}, nil); err != nil || *pause != want {
			t.Errorf("after %d attempts: %v, %v; want %v", tried, *pause, err, want)
		}
	}
}

// TestARefusalIsRemembered while the driver takes long over the claim: the provider is asked once.
func TestARefusalIsRemembered(t *testing.T) {
	m := newMachine(t, claim("one", "a"), pod("a", "one"))
	goOn := make(chan struct{})
	m.driver.Set(func() {
		m.driver.During = func(call, at string) {
			if call == "unprepare one" && at == "before" {
				<-goOn
			}
		}
	})
	var asked atomic.Int32
	m.run(t, &pods{create: func(*corev1.Pod) error {
		asked.Add(1)
		return errdefs.InvalidInput("never")
	}})
	fakecluster.Eventually(t, "the driver takes long", func() bool {
		found, err := m.client.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
		return err == nil && strings.Contains(found.Status.Message, errBusy.Error())
	})
	close(goOn)
	m.awaitPhase(t, "a", corev1.PodFailed)
	if asked.Load() != 1 {
		t.Errorf("the provider was asked %d times", asked.Load())
	}
	m.prepared(t)
}

// TestTheLatestEndIsTold: what the provider says of a pod that has ended may change until its claims are released.
func TestTheLatestEndIsTold(t *testing.T) {
	m := newMachine(t, claim("one", "a"), pod("a", "one"))
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodRunning)
	m.driver.Set(func() { m.driver.Refuse["unprepare one"] = "busy" })
	known, err := p.get("a")
	if err != nil {
		t.Fatal(err)
	}
	p.report(known, corev1.PodSucceeded)
	fakecluster.Eventually(t, "an attempt to unprepare", func() bool { return slices.Contains(m.driver.Taken(), "unprepare one") })
	p.report(known, corev1.PodFailed)
	m.driver.Set(func() { clear(m.driver.Refuse) })
	fakecluster.Eventually(t, "the end", func() bool { return m.phase(t, "a") != corev1.PodRunning })
	if phase := m.phase(t, "a"); phase != corev1.PodFailed {
		t.Errorf("the pod is %s", phase)
	}
}

// wordless is a provider that has no pod, and no error about that.
type wordless struct{ *pods }

func (wordless) GetPod(context.Context, string, string) (*corev1.Pod, error) { return nil, nil }

// A pod whose claims are being released is there with its last status, though the provider has forgotten it; a failure of the
// provider, and another pod, are told as they are.
func TestPodsThatEnd(t *testing.T) {
	p := &pods{known: map[string]*corev1.Pod{"runs": pod("runs")}}
	c := newTestClaimed(t, p)
	c.markEnding(ended(pod("ending")))
	c.markEnding(ended(pod("runs")))
	if c.markEnding(ended(pod("ending"))) {
		t.Error("the claims of a pod are released twice")
	}
	successor := ended(pod("ending"))
	if successor.UID = "successor"; !c.markEnding(successor) {
		t.Error("the claims of a pod are not released as another one of its name ended before")
	}
	for name, want := range map[string]corev1.PodPhase{"ending": corev1.PodSucceeded, "runs": corev1.PodPending} {
		if got, err := c.GetPodStatus(t.Context(), "ns", name); err != nil || got.Phase != want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, want)
		}
	}
	if got, err := c.GetPodStatus(t.Context(), "ns", "none"); got != nil || !errdefs.IsNotFound(err) {
		t.Errorf("a pod that is not there: %v, %v", got, err)
	}
	// A provider may also have neither a pod nor an error.
	c.inner = wordless{p}
	if got, err := c.GetPodStatus(t.Context(), "ns", "ending"); err != nil || got.Phase != corev1.PodSucceeded {
		t.Errorf("ending, and the provider says nothing: %v, %v", got, err)
	}
	if got, err := c.GetPodStatus(t.Context(), "ns", "none"); got != nil || err != nil {
		t.Errorf("a pod of which the provider says nothing: %v, %v", got, err)
	}
	c.inner = p
	if err := c.UpdatePod(t.Context(), pod("ending")); err != nil {
		t.Errorf("update: %v", err)
	}
	if err := c.DeletePod(t.Context(), pod("ending")); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := c.DeletePod(t.Context(), pod("none")); !errdefs.IsNotFound(err) {
		t.Errorf("delete one that is not there: %v", err)
	}
}
