// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/dray-project/dray/agent/internal/fakedriver"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/provider/simulated"
	"github.com/dray-project/dray/agent/virtualnode"
	"github.com/dray-project/dray/internal/dev/faults"
)

// commonDevice ends the name of a CDI device that devices have in common.
const commonDevice = "/gpu=common"

// machine is where the arena's node is: its folder survives the node.
type machine struct {
	*arena
	folder string
	// client reaches the API server through the proxy.
	client  kubernetes.Interface
	proxy   *faults.Proxy
	drivers map[string]*fakedriver.Driver
	// real is a driver beside them, if a spec has one.
	real *reporting

	runner *runner // of the node that runs, or ran last
	cancel context.CancelFunc
	ended  chan error // nil: there is no node

	mutex      sync.Mutex
	violations []string
}

// startProxy stands between a node and the API server.
func startProxy() (*faults.Proxy, *rest.Config) {
	GinkgoHelper()
	serving, err := plane.ServingCertificate()
	Expect(err).NotTo(HaveOccurred())
	proxy, err := faults.Start(plane.Config(), serving)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(proxy.Close()).To(Succeed()) })
	config := plane.Config()
	config.Host = proxy.URL()
	return proxy, config
}

// newMachine has a driver with so many devices, and runs no node yet. At the end of the
// spec all pods end, and nothing may be left of them.
func newMachine(ctx context.Context, devices int) *machine {
	GinkgoHelper()
	here = newArena(ctx)
	folder := shortdir.New(GinkgoTB())
	Expect(os.MkdirAll(virtualnode.RegistrationDir(folder), 0o750)).To(Succeed())
	m := &machine{arena: here, folder: folder, drivers: make(map[string]*fakedriver.Driver)}
	var config *rest.Config
	m.proxy, config = startProxy()
	m.client = kubernetes.NewForConfigOrDie(config)
	m.addDriver(m.driver)
	m.addDevices(ctx, m.driver, devices)
	// The last is the first to be done.
	DeferCleanup(func() {
		for _, driver := range m.drivers {
			driver.Stop()
		}
	})
	DeferCleanup(m.stop)
	DeferCleanup(m.clear)
	return m
}

// addDriver starts a driver, which notes if it is to take away what a pod uses.
func (m *machine) addDriver(name string) *fakedriver.Driver {
	GinkgoHelper()
	driver, err := fakedriver.Start(virtualnode.RegistrationDir(m.folder), name, func(d *fakedriver.Driver) {
		d.During = m.during
		fakedriver.Speaking(d)
	})
	Expect(err).NotTo(HaveOccurred())
	m.drivers[name] = driver
	return driver
}

func (m *machine) during(call, at string) {
	claims, unprepares := strings.CutPrefix(call, "unprepare ")
	if !unprepares || at != "before" {
		return
	}
	for _, claim := range strings.Fields(claims) {
		for _, pod := range m.runner.users(claim) {
			m.violation("claim %s is unprepared, and pod %s runs with it", claim, pod)
		}
	}
}

func (m *machine) violation(format string, arguments ...any) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.violations = append(m.violations, fmt.Sprintf(format, arguments...))
}

// prepared are the claims that drivers have prepared, by UID.
func (m *machine) prepared() []string {
	var claims []string
	for _, driver := range m.drivers {
		claims = append(claims, driver.Holds()...)
	}
	if m.real != nil {
		for _, hold := range m.real.ledger.Holds() {
			claims = append(claims, hold.User)
		}
	}
	slices.Sort(claims)
	return claims
}

// uids are of objects.
func uids(objects ...metav1.Object) []string {
	var out []string
	for _, object := range objects {
		out = append(out, string(object.GetUID()))
	}
	slices.Sort(out)
	return out
}

// run runs the node, which has pods run by a provider that a spec may change.
func (m *machine) run(ctx context.Context, changes ...func(*runner)) *machine {
	GinkgoHelper()
	m.begin(changes...)
	select {
	case <-m.runner.node.Ready():
	case err := <-m.ended:
		Fail(fmt.Sprintf("the node ended: %v", err))
	case <-ctx.Done():
		Fail("the node is not ready")
	}
	return m
}

// begin is run without waiting for the node.
func (m *machine) begin(changes ...func(*runner)) {
	GinkgoHelper()
	m.runner = &runner{Provider: simulated.New(nil), machine: m, devices: make(map[types.UID][]string)}
	for _, change := range changes {
		change(m.runner)
	}
	node, err := virtualnode.New(virtualnode.Options{
		Client: m.client, Folder: m.folder, Node: nodeObject(m.node),
		NewProvider: func(devices virtualnode.Devices, _ record.EventRecorder) (virtualnode.Provider, error) {
			m.runner.devicesOf = devices
			return m.runner, nil
		},
	})
	Expect(err).NotTo(HaveOccurred())
	m.runner.node = node
	var running context.Context
	running, m.cancel = context.WithCancel(context.Background())
	ended := make(chan error, 1)
	m.ended = ended
	provider := m.runner.Provider
	go func() {
		err := node.Run(running)
		provider.Close()
		ended <- err
	}()
}

// stop ends the node, which leaves pods and claims as they are.
func (m *machine) stop() error {
	if m.ended == nil {
		return nil
	}
	m.cancel()
	err := <-m.ended
	m.ended = nil
	return err
}

// clear ends all pods, and expects that nothing is left of them.
func (m *machine) clear(ctx SpecContext) {
	m.proxy.Heal()
	Expect(client.CoreV1().Pods(m.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	if m.ended == nil {
		m.run(ctx)
	}
	Eventually(ctx, func() ([]string, error) {
		pods, err := client.CoreV1().Pods(m.namespace).List(ctx, metav1.ListOptions{})
		var names []string
		for _, pod := range pods.Items {
			names = append(names, pod.Name)
		}
		return names, err
	}).Should(BeEmpty(), "pods")
	Eventually(m.prepared).Should(BeEmpty(), "prepared claims")
	Eventually(ctx, m.holders).Should(BeEmpty(), "claims that hold devices")
	Eventually(watcher.Leaked).Should(BeEmpty())
	Expect(watcher.Violations()).To(BeEmpty())
	Expect(m.stop()).To(Succeed())
	Expect(m.violations).To(BeEmpty())
	Expect(client.CoreV1().Nodes().Delete(ctx, m.node, metav1.DeleteOptions{})).To(Succeed())
	Expect(client.CoreV1().Namespaces().Delete(ctx, m.namespace, metav1.DeleteOptions{})).To(Succeed())
}

func nodeObject(name string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Test"}},
		},
	}
}
