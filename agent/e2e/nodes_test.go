// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/internal/dev/faults"
)

// pinged is a provider whose pings return what a spec says, or block.
type pinged struct {
	*node.NaiveNodeProviderV2
	mutex sync.Mutex
	ping  func(ctx context.Context) error
}

// Ping implements node.NodeProvider.
func (p *pinged) Ping(ctx context.Context) error {
	p.mutex.Lock()
	ping := p.ping
	p.mutex.Unlock()
	return ping(ctx)
}

func (p *pinged) set(ping func(ctx context.Context) error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.ping = ping
}

func well(context.Context) error { return nil }

// controlled is a node that only has a NodeController.
type controlled struct {
	name     string
	proxy    *faults.Proxy
	provider *pinged
	ended    chan error
}

// controlled nodes are numbered.
var controlledNodes int

// newControlled runs a NodeController with short intervals, until the end of the spec.
func newControlled(prepare func(c *controlled)) *controlled {
	GinkgoHelper()
	controlledNodes++
	c := &controlled{name: nth("controlled", controlledNodes), ended: make(chan error, 1)}
	c.provider = &pinged{NaiveNodeProviderV2: node.NewNaiveNodeProvider(), ping: well}
	proxy, config := startProxy()
	c.proxy = proxy
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.CoreV1().Nodes().Delete(ctx, c.name, metav1.DeleteOptions{})).To(Succeed())
	})
	if prepare != nil {
		prepare(c)
	}
	through := kubernetes.NewForConfigOrDie(config)
	controller, err := node.NewNodeController(c.provider, nodeObject(c.name), through.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1WithRenewInterval(through.CoordinationV1().Leases(corev1.NamespaceNodeLease), 40, 50*time.Millisecond),
		node.WithNodePingInterval(20*time.Millisecond), node.WithNodePingTimeout(time.Second), node.WithNodeStatusUpdateInterval(100*time.Millisecond))
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { c.ended <- controller.Run(running) })
	DeferCleanup(func() { cancel(); group.Wait() })
	return c
}

func (c *controlled) get(ctx context.Context) (*corev1.Node, error) {
	return client.CoreV1().Nodes().Get(ctx, c.name, metav1.GetOptions{})
}

// ready is "status reason" of the condition Ready.
func (c *controlled) ready(ctx context.Context) (string, error) {
	found, err := c.get(ctx)
	if err != nil {
		return "", err
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return fmt.Sprint(condition.Status, " ", condition.Reason), nil
		}
	}
	return "no condition", nil
}

func (c *controlled) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	return client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, c.name, metav1.GetOptions{})
}

// expectRenewed waits until the lease, which belongs to the node as it is now, is renewed
// twice, by the clock of this machine.
func (c *controlled) expectRenewed(ctx context.Context) {
	GinkgoHelper()
	var last metav1.MicroTime
	for range 3 {
		began := time.Now()
		Eventually(ctx, func() error {
			lease, err := c.lease(ctx)
			if err != nil {
				return err
			}
			found, err := c.get(ctx)
			if err != nil {
				return err
			}
			if renewed := lease.Spec.RenewTime; renewed.Before(&metav1.MicroTime{Time: began}) || !last.Before(renewed) {
				return fmt.Errorf("renewed at %s, looked at from %s on, and before that it was %s", renewed, began, last)
			}
			if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != found.UID {
				return fmt.Errorf("belongs to %v, and the node is %s", lease.OwnerReferences, found.UID)
			}
			last = *lease.Spec.RenewTime
			return nil
		}).Should(Succeed())
	}
}

var _ = Describe("A node", func() {
	It("is registered, ready, and alive by a lease of its own", func(ctx SpecContext) {
		c := newControlled(nil)
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.expectRenewed(ctx)
	})

	DescribeTable("is registered though requests fail", func(ctx SpecContext, method, path string, status int) {
		c := newControlled(func(c *controlled) {
			c.proxy.Inject(faults.Fault{Methods: []string{method}, Path: regexp.MustCompile(path), Times: 3, Status: status})
		})
		Eventually(c.proxy.Spoilt).Should(Equal(3))
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.expectRenewed(ctx)
		Expect(c.ended).To(BeEmpty())
	},
		Entry("internal errors when it is created", http.MethodPost, "/nodes$", http.StatusInternalServerError),
		Entry("too many requests when it is looked for", http.MethodGet, "/nodes/", http.StatusTooManyRequests),
		Entry("conflicts when its status is written", http.MethodPatch, "/nodes/[^/]+/status$", http.StatusConflict),
		Entry("its status is written without an answer", http.MethodPatch, "/nodes/[^/]+/status$", lost),
		Entry("conflicts when its lease is renewed", http.MethodPut, "/leases/", http.StatusConflict),
		Entry("its lease is renewed without an answer", http.MethodPut, "/leases/", lost),
	)

	It("that was created without an answer is taken over", func(ctx SpecContext) {
		c := newControlled(func(c *controlled) {
			c.proxy.Inject(faults.Fault{Methods: []string{http.MethodPost}, Path: regexp.MustCompile("/(nodes|leases)$"), Times: 2, Status: lost})
		})
		Eventually(c.proxy.Spoilt).Should(Equal(2))
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.expectRenewed(ctx)
	})

	It("that is deleted is created again, and so is its lease's owner", func(ctx SpecContext) {
		c := newControlled(nil)
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		first, err := c.get(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(client.CoreV1().Nodes().Delete(ctx, c.name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func() (types.UID, error) {
			found, err := c.get(ctx)
			if err != nil {
				return first.UID, nil
			}
			return found.UID, nil
		}).ShouldNot(Equal(first.UID))
		c.expectRenewed(ctx)
	})

	It("keeps what others write on it", func(ctx SpecContext) {
		c := newControlled(nil)
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		patch := []byte(`{"metadata":{"labels":{"example.com/rack":"7"}},"status":{"conditions":[{"type":"example.com/Cold","status":"False"}]}}`)
		_, err := client.CoreV1().Nodes().Patch(ctx, c.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Nodes().Patch(ctx, c.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		changed := nodeObject(c.name)
		changed.Status.Conditions[0].Reason = "Changed"
		Expect(c.provider.UpdateStatus(ctx, changed)).To(Succeed())
		Eventually(ctx, c.ready).Should(Equal("True Changed"))
		found, err := c.get(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Labels).To(HaveKeyWithValue("example.com/rack", "7"))
		Expect(found.Status.Conditions).To(ContainElement(HaveField("Type", corev1.NodeConditionType("example.com/Cold"))))
	})

	DescribeTable("whose provider is not well says why, and is ready again when it is well", func(ctx SpecContext, ping func(ctx context.Context) error, why string) {
		c := newControlled(nil)
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.expectRenewed(ctx)
		c.provider.set(ping)
		Eventually(ctx, c.ready).Should(Equal("False ProviderPingFailed"))
		found, err := c.get(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Status.Conditions).To(ContainElement(HaveField("Message", MatchRegexp(why))))
		// A renewal that had begun may get there once more.
		Eventually(ctx, func() (time.Duration, error) {
			before, err := c.lease(ctx)
			if err != nil {
				return 0, err
			}
			time.Sleep(calm)
			after, err := c.lease(ctx)
			if err != nil {
				return 0, err
			}
			return after.Spec.RenewTime.Sub(before.Spec.RenewTime.Time), nil
		}).Should(BeZero(), "its lease is left to expire")
		c.provider.set(well)
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.expectRenewed(ctx)
	},
		Entry("because its pings fail", func(context.Context) error { return errors.New("the cable is cut") }, "the cable is cut"),
		Entry("because it blocks", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "no answer within 1s|deadline exceeded"),
	)

	It("whose provider panics ends with an error", func(ctx SpecContext) {
		c := newControlled(nil)
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.provider.set(func(context.Context) error { panic("out of luck") })
		var err error
		Eventually(c.ended).Should(Receive(&err))
		Expect(err).To(MatchError(And(ContainSubstring(c.name), ContainSubstring("out of luck"))))
	})

	DescribeTable("takes over a lease and a status by a clock that was wrong", func(ctx SpecContext, off time.Duration) {
		wrong := time.Now().Add(off)
		c := newControlled(func(c *controlled) {
			existing := nodeObject(c.name)
			existing.Status.Conditions[0].Reason, existing.Status.Conditions[0].LastHeartbeatTime = "Old", metav1.NewTime(wrong)
			existing.Status.Conditions[0].LastTransitionTime = metav1.NewTime(wrong)
			_, err := client.CoreV1().Nodes().Create(ctx, existing, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: c.name},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(c.name), LeaseDurationSeconds: ptr.To[int32](40),
					RenewTime: &metav1.MicroTime{Time: wrong}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		})
		Eventually(ctx, c.ready).Should(Equal("True Test"))
		c.expectRenewed(ctx)
		found, err := c.get(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, condition := range found.Status.Conditions {
			Expect(condition.LastHeartbeatTime.Time).To(BeTemporally("~", time.Now(), time.Hour))
		}
	},
		Entry("a day ahead", 24*time.Hour),
		Entry("a year behind", -365*24*time.Hour),
	)

	DescribeTable("with an invalid name is refused before anything is asked", func(name string) {
		_, err := node.NewNodeController(node.NaiveNodeProvider{}, nodeObject(name), client.CoreV1().Nodes())
		Expect(err).To(MatchError(ContainSubstring("name: ")))
	},
		Entry("that is empty", ""),
		Entry("in capitals", "Node-1"),
		Entry("with an underscore", "node_1"),
		Entry("that is too long", strings.Repeat("n", 254)),
		Entry("that is a path", "../nodes"),
	)
})
