package node_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/agent/node"
)

// feeding is a feed with one controller and one provider per node.
type feeding struct {
	*cluster
	feed      *node.PodFeed
	providers map[string]*pods
}

func newFeeding(t *testing.T, existing ...*corev1.Pod) *feeding {
	t.Helper()
	c := newCluster(t, nil, existing...)
	feed, err := node.NewPodFeed(t.Context(), c.informer)
	if err != nil {
		t.Fatal(err)
	}
	c.startInformers(t)
	if !feed.HasSynced() {
		t.Fatal("not synced")
	}
	t.Cleanup(func() {
		if err := feed.Close(); err != nil {
			t.Error(err)
		}
	})
	return &feeding{c, feed, make(map[string]*pods)}
}

// add runs the controller of another node.
func (f *feeding) add(t *testing.T, name string) (*node.PodController, error) {
	t.Helper()
	provider := newPods()
	controller, err := node.NewPodController(node.PodControllerConfig{
		PodClient: f.client.CoreV1(), PodLister: f.informer.Lister(), PodEventFilterFunc: f.feed.FilterFor(name),
		EventRecorder: f.events, Provider: notifier{provider},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.feed.Add(name, controller); err != nil {
		return nil, err
	}
	f.providers[name] = provider
	return controller, nil
}

func podOn(name, node string) *corev1.Pod {
	pod := newPod(name)
	pod.Spec.NodeName = node
	return pod
}

func TestPodFeed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFeeding(t, podOn("a", "one"), podOn("b", "two"), podOn("c", ""))
		for _, name := range []string{"one", "two"} {
			controller, err := f.add(t, name)
			if err != nil {
				t.Fatal(err)
			}
			start(t, func(ctx context.Context) error { return controller.Run(ctx, 1) })
		}
		f.settle()
		one, two := f.providers["one"], f.providers["two"]
		one.expect(t, "create a")
		two.expect(t, "create b")

		f.updatePod(t, podOn("c", "two")) // it was bound
		two.expect(t, "create b", "create c")
		labelled := podOn("a", "one")
		labelled.Labels = map[string]string{"new": "label"}
		f.updatePod(t, labelled)
		one.expect(t, "create a", "update a")
		f.removePod(t, "b")
		two.expect(t, "create b", "create c", "delete b")

		// The next pod of a name is on another node, and nobody saw the deletion between.
		moved := podOn("a", "two")
		moved.UID = "uid-moved"
		f.updatePod(t, moved)
		one.expect(t, "create a", "update a", "delete a")
		two.expect(t, "create b", "create c", "delete b", "create a")

		if _, err := f.add(t, "one"); err == nil {
			t.Error("a second controller was added for a node")
		}
		f.feed.Remove("one")
		f.feed.Remove("never added")
		f.createPod(t, podOn("d", "one"))
		one.expect(t, "create a", "update a", "delete a")
	})
}

// TestOneInformerServesAThousandNodes counts what is asked of the API server.
func TestOneInformerServesAThousandNodes(t *testing.T) {
	const nodes = 1000
	bubble(t, func(t *testing.T) {
		f := newFeeding(t)
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range nodes {
			controller, err := f.add(t, fmt.Sprint("node-", i))
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := controller.Run(ctx, 1); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range nodes {
			if err := f.client.Tracker().Add(podOn(fmt.Sprint("pod-", i), fmt.Sprint("node-", i))); err != nil {
				t.Fatal(err)
			}
			if i%50 == 0 {
				f.settle() // the fake API server's watch has room for a hundred events
			}
		}
		time.Sleep(time.Minute)
		for i := range nodes {
			f.providers[fmt.Sprint("node-", i)].expect(t, fmt.Sprint("create pod-", i))
		}
		lists, watches := 0, 0
		for _, action := range f.client.Actions() {
			switch action.GetVerb() {
			case "list":
				lists++
			case "watch":
				watches++
			}
		}
		if lists > 1 || watches != 1 {
			t.Errorf("%d lists and %d watches for %d nodes", lists, watches, nodes)
		}
		cancel()
		group.Wait()
	})
}
