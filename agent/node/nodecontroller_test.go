// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/node"
)

func virtualNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"type": "virtual"}, Annotations: map[string]string{"note": "ours"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "virtual", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "ProviderReady"},
		}},
	}
}

// provider is a NodeProvider that does what a test says.
type provider struct {
	ping   func(context.Context) error
	notify func(*corev1.Node)
}

func (p *provider) Ping(ctx context.Context) error {
	if p.ping == nil {
		return nil
	}
	return p.ping(ctx)
}

func (p *provider) NotifyNodeStatus(_ context.Context, cb func(*corev1.Node)) { p.notify = cb }

func newController(t *testing.T, p node.NodeProvider, client *fake.Clientset, opts ...node.NodeControllerOpt) *node.NodeController {
	t.Helper()
	controller, err := node.NewNodeController(p, virtualNode(), client.CoreV1().Nodes(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return controller
}

func getNode(t *testing.T, client *fake.Clientset) *corev1.Node {
	t.Helper()
	stored, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func getLease(t *testing.T, client *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func withLease(client *fake.Clientset) node.NodeControllerOpt {
	return node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), 40)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		controller := newController(t, node.NaiveNodeProvider{}, client)
		running := start(t, controller.Run)
		if !isClosed(controller.Ready()) || isClosed(controller.Done()) {
			t.Error("the controller is not ready, or done")
		}
		stored := getNode(t, client)
		if stored.Labels["type"] != "virtual" || stored.Annotations["note"] != "ours" || len(stored.Spec.Taints) != 1 {
			t.Errorf("the node was not created as it was given: %v", stored)
		}
		ready := condition(stored.Status.Conditions, corev1.NodeReady)
		if ready == nil || ready.Status != corev1.ConditionTrue || !ready.LastHeartbeatTime.Time.Equal(time.Now()) {
			t.Errorf("Ready is %v", ready)
		}
		if err := running.stop(); err != nil || !isClosed(controller.Done()) || controller.Err() != nil {
			t.Errorf("Run: %v, Err: %v", err, controller.Err())
		}
		getNode(t, client) // it stays
	})
}

func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		existing := virtualNode()
		existing.Labels = map[string]string{"theirs": "label"}
		existing.Annotations = nil
		existing.Spec.Taints = nil
		existing.Status.Conditions = []corev1.NodeCondition{{Type: "Theirs", Status: corev1.ConditionTrue}}
		client := fake.NewClientset(existing)
		start(t, newController(t, node.NaiveNodeProvider{}, client).Run)
		stored := getNode(t, client)
		if want := map[string]string{"theirs": "label", "type": "virtual"}; !maps.Equal(stored.Labels, want) {
			t.Errorf("labels %v, want %v", stored.Labels, want)
		}
		if condition(stored.Status.Conditions, "Theirs") == nil || condition(stored.Status.Conditions, corev1.NodeReady) == nil {
			t.Errorf("conditions %v", stored.Status.Conditions)
		}
		if len(stored.Spec.Taints) != 0 || count(client, "create") != 0 {
			t.Error("the spec of an existing node was written, or the node was created")
		}
	})
}

func TestStatusIntervals(t *testing.T) {
	for name, c := range map[string]struct {
		opts func(*fake.Clientset) []node.NodeControllerOpt
		want int // status writes in ten minutes, after the first
	}{
		"without a lease, the default": {func(*fake.Clientset) []node.NodeControllerOpt { return nil }, 60},
		"without a lease": {func(*fake.Clientset) []node.NodeControllerOpt {
			return []node.NodeControllerOpt{node.WithNodePingInterval(time.Minute), node.WithNodeStatusUpdateInterval(time.Second)}
		}, 10},
		"with a lease, the default": {func(c *fake.Clientset) []node.NodeControllerOpt { return []node.NodeControllerOpt{withLease(c)} }, 10},
		"with a lease": {func(c *fake.Clientset) []node.NodeControllerOpt {
			return []node.NodeControllerOpt{withLease(c), node.WithNodeStatusUpdateInterval(5 * time.Minute)}
		}, 2},
		"the last option counts": {func(c *fake.Clientset) []node.NodeControllerOpt {
			return []node.NodeControllerOpt{withLease(c), node.WithNodeStatusUpdateInterval(time.Second), node.WithNodeStatusUpdateInterval(2 * time.Minute)}
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				start(t, newController(t, node.NaiveNodeProvider{}, client, c.opts(client)...).Run)
				time.Sleep(10*time.Minute + time.Second)
				if got := count(client, "patch nodes/status"); got != c.want {
					t.Errorf("got %d status writes, want %d", got, c.want)
				}
			})
		})
	}
}

func TestNotificationsAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &provider{}
		release := make(chan struct{})
		start(t, newController(t, p, client).Run)
		prepend(client, "patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-release
			return false, nil, nil
		})
		for i := range 1000 {
			ours := virtualNode()
			ours.Labels["number"] = fmt.Sprint(i)
			p.notify(ours)
			synctest.Wait()
		}
		p.notify(nil) // lies, and is ignored
		close(release)
		synctest.Wait()
		if got := count(client, "patch nodes/status"); got != 2 {
			t.Errorf("1000 notifications made %d writes, want the first and the last", got)
		}
		if got := getNode(t, client).Labels["number"]; got != "999" {
			t.Errorf("the node has the state of notification %s", got)
		}
	})
}

// TestRecreation also shows that the lease changes its owner.
func TestRecreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		uid := 0
		prepend(client, "create", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			uid++
			action.(clienttesting.CreateAction).GetObject().(*corev1.Node).UID = types.UID(fmt.Sprint("uid-", uid))
			return false, nil, nil
		})
		start(t, newController(t, node.NaiveNodeProvider{}, client, withLease(client)).Run)
		for _, want := range []types.UID{"uid-1", "uid-2", "uid-3"} {
			time.Sleep(90 * time.Second)
			if got := getNode(t, client); got.UID != want || len(got.Spec.Taints) != 1 {
				t.Errorf("the node is %s with taints %v, want %s", got.UID, got.Spec.Taints, want)
			}
			if owners := getLease(t, client).OwnerReferences; len(owners) != 1 || owners[0].UID != want || owners[0].Kind != "Node" {
				t.Errorf("the lease belongs to %v, want %s", owners, want)
			}
			if err := client.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestStatusErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var handled []error
		handler := func(ctx context.Context, err error) error {
			handled = append(handled, err)
			if len(handled) == 1 {
				return err // not dealt with
			}
			_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"by": "handler"}}}, metav1.CreateOptions{})
			return err
		}
		start(t, newController(t, node.NaiveNodeProvider{}, client, node.WithNodeStatusUpdateErrorHandler(handler)).Run)
		if err := client.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(handled) != 2 || !apierrors.IsNotFound(handled[0]) || !apierrors.IsNotFound(handled[1]) {
			t.Errorf("the handler got %v", handled)
		}
		stored := getNode(t, client)
		if stored.Labels["by"] != "handler" || stored.Labels["type"] != "virtual" {
			t.Errorf("labels %v: want those of the handler, and those of the attempt after it", stored.Labels)
		}
	})
}

func TestStatusIsRepeatedAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &provider{}
		start(t, newController(t, p, client, withLease(client), node.WithNodeStatusUpdateInterval(time.Hour)).Run)
		failures := 3
		prepend(client, "patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("no")
		})
		ours := virtualNode()
		ours.Labels["new"] = "label"
		p.notify(ours)
		time.Sleep(200*time.Millisecond + 400*time.Millisecond + 800*time.Millisecond)
		synctest.Wait()
		if getNode(t, client).Labels["new"] != "label" {
			t.Error("the status was not written within 1.4 s")
		}
	})
}

func TestRegisterMeetsErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("nodes"), nodeName, errors.New("no"))
	for name, c := range map[string]struct {
		verb string
		err  error
		ends bool
	}{
		"too many requests":           {"get", apierrors.NewTooManyRequests("later", 1), false},
		"a server that starts":        {"create", apierrors.NewServiceUnavailable("starting"), false},
		"a server that is not there":  {"get", &url.Error{Op: "Get", URL: "https://example.com", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, false},
		"a handshake that takes long": {"create", &url.Error{Op: "Post", URL: "https://example.com", Err: errors.New("net/http: TLS handshake timeout")}, false},
		"an internal error":           {"create", apierrors.NewInternalError(errors.New("etcd")), false},
		"somebody who was faster":     {"create", apierrors.NewAlreadyExists(corev1.Resource("nodes"), nodeName), false},
		"something that is gone":      {"create", apierrors.NewNotFound(corev1.Resource("nodes"), nodeName), false},
		"no permission":               {"create", forbidden, true},
		"an error of another kind":    {"get", errors.New("no"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				calls := 0
				prepend(client, c.verb, "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					calls++
					return calls <= 3, nil, c.err
				})
				controller := newController(t, node.NaiveNodeProvider{}, client)
				running := start(t, controller.Run)
				time.Sleep(time.Minute)
				if isClosed(controller.Ready()) == c.ends {
					t.Errorf("ready: %t", isClosed(controller.Ready()))
				}
				if !c.ends {
					return
				}
				if err := running.wait(); !errors.Is(err, c.err) || !errors.Is(controller.Err(), c.err) || !strings.Contains(err.Error(), nodeName) {
					t.Errorf("Run: %v, Err: %v", err, controller.Err())
				}
			})
		})
	}
}

// refusal is a controller that cannot be made.
type refusal struct {
	make func() (*node.NodeController, error)
	want string
}

func TestNewNodeControllerRefuses(t *testing.T) {
	client := fake.NewClientset()
	nodes, leases := client.CoreV1().Nodes(), client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	named := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	good := node.NaiveNodeProvider{}
	option := func(opt node.NodeControllerOpt, want string) refusal {
		return refusal{func() (*node.NodeController, error) { return node.NewNodeController(good, named("a"), nodes, opt) }, want}
	}
	for name, c := range map[string]refusal{
		"no provider": {func() (*node.NodeController, error) { return node.NewNodeController(nil, named("a"), nodes) }, "a provider is required"},
		"no node":     {func() (*node.NodeController, error) { return node.NewNodeController(good, nil, nodes) }, "a node is required"},
		"no client":   {func() (*node.NodeController, error) { return node.NewNodeController(good, named("a"), nil) }, "node a: a client is required"},
		"no name":     {func() (*node.NodeController, error) { return node.NewNodeController(good, named(""), nodes) }, `node "": name:`},
		"a bad name":  {func() (*node.NodeController, error) { return node.NewNodeController(good, named("Node_1"), nodes) }, `node "Node_1": name:`},
		"a long name": {func() (*node.NodeController, error) {
			return node.NewNodeController(good, named(strings.Repeat("a", 254)), nodes)
		}, "name: must be no more than 253"},
		"lease client":      option(node.WithNodeEnableLeaseV1(nil, 40), "lease: a client is required"),
		"lease duration":    option(node.WithNodeEnableLeaseV1(leases, -1), "must not be negative"),
		"lease interval":    option(node.WithNodeEnableLeaseV1WithRenewInterval(leases, 40, 40*time.Second), "less than its duration"),
		"no lease interval": option(node.WithNodeEnableLeaseV1WithRenewInterval(leases, 40, 0), "more than 0"),
		"ping interval":     option(node.WithNodePingInterval(-1), "ping interval -1ns"),
		"ping timeout":      option(node.WithNodePingTimeout(0), "ping timeout 0s"),
		"status interval":   option(node.WithNodeStatusUpdateInterval(-1), "status update interval -1ns"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.make(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	_, err := node.NewNodeController(good, named("a"), nodes, node.WithNodeEnableLeaseV1(leases, 40), node.WithNodeEnableLeaseV1WithRenewInterval(leases, 40, time.Second))
	if !errors.Is(err, node.ErrConflictingLeaseControllerConfiguration) {
		t.Errorf("two leases: %v", err)
	}
}

// prepend adds a reaction to a client that may be in use. The client reads its reactions
// with the lock held.
func prepend(client *fake.Clientset, verb, resource string, react clienttesting.ReactionFunc) {
	client.Lock()
	defer client.Unlock()
	client.PrependReactor(verb, resource, react)
}
