// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/fakekubelet"
	"github.com/dray-project/dray/agent/inventory"
)

// kubeletRestarts is how often kubelets die in TestKubeletDiesAtEveryStep.
const kubeletRestarts = 500

// Each kubelet dies at another step. Whatever the one before came to, the claim
// that it wants is prepared in the same way, and unprepared without a trace.
//
// A call that is cut off may still take effect, at any time. Kubelets that die during a
// call therefore make it for another claim than the rest.
func TestKubeletDiesAtEveryStep(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0", "gpu-1"), claim("cut", "gpu-2"))
	n.driver.Update(devices("gpu-0", "gpu-1", "gpu-2"))
	one := &dra.Claim{Namespace: "ns", Name: "one", Uid: "one"}
	cut := &dra.Claim{Namespace: "ns", Name: "cut", Uid: "cut"}
	died := make(map[fakekubelet.Step]int)
	start := time.Now()
	for i := range kubeletRestarts {
		step := fakekubelet.WatcherSteps[i%len(fakekubelet.WatcherSteps)]
		kubelet, err := fakekubelet.StartPluginWatcher(filepath.Join(n.dir, "r"), step)
		if err != nil {
			t.Fatal(err)
		}
		wanted := one
		if step == fakekubelet.Preparing || step == fakekubelet.Unpreparing {
			wanted = cut
		}
		if prepared, err := kubelet.Prepare(t.Context(), driverName, wanted); err == nil {
			if wanted == one {
				n.assertPrepared(t, prepared)
			}
			_ = kubelet.Unprepare(t.Context(), driverName, wanted)
		}
		select {
		case <-kubelet.Dead():
			died[step]++
		case <-time.After(2 * time.Minute):
			t.Fatalf("restart %d: the kubelet does not come to the step %q", i, step)
		}
		kubelet.Kill()
		if step == fakekubelet.Unprepared {
			held := slices.ContainsFunc(n.ledger.Holds(), func(hold inventory.Hold) bool { return hold.User == "one" })
			if left := n.cdiDevicesOfOne(t); len(left) > 0 || held {
				t.Fatalf("restart %d: left after unprepare: %q and %v", i, left, n.ledger.Holds())
			}
		}
	}
	t.Logf("%d restarts in %s", kubeletRestarts, time.Since(start).Round(time.Millisecond))
	for _, step := range fakekubelet.WatcherSteps {
		if died[step] < kubeletRestarts/len(fakekubelet.WatcherSteps) {
			t.Errorf("%d kubelets died at the step %q", died[step], step)
		}
	}

	last, err := fakekubelet.StartPluginWatcher(filepath.Join(n.dir, "r"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer last.Kill()
	prepared, err := last.Prepare(t.Context(), driverName, one)
	if err != nil {
		t.Fatal(err)
	}
	n.assertPrepared(t, prepared)
	fakecluster.Eventually(t, "no trace of both claims", func() bool {
		for _, claim := range []*dra.Claim{one, cut} {
			if err := last.Unprepare(t.Context(), driverName, claim); err != nil {
				t.Fatal(err)
			}
		}
		return len(n.cdiDevices(t)) == 0 && len(n.ledger.Holds()) == 0
	})
}

// cdiDevicesOfOne are those of the claim one.
func (n *node) cdiDevicesOfOne(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(n.cdiDevices(t), func(text string) bool { return !strings.Contains(text, "claim=one-") })
}

// assertPrepared compares the answer and the CDI files with what the claim is.
func (n *node) assertPrepared(t *testing.T, prepared []*dra.Device) {
	t.Helper()
	var got []string
	for _, device := range prepared {
		got = append(got, fmt.Sprint(device.GetDeviceName(), device.GetCdiDeviceIds()))
	}
	if want := []string{"gpu-0[gpu.example.com/claim=one-gpu-0]", "gpu-1[gpu.example.com/claim=one-gpu-1]"}; !slices.Equal(got, want) {
		t.Fatalf("prepared %q, want %q", got, want)
	}
	if want := []string{"gpu.example.com/claim=one-gpu-0: GPU=gpu-0", "gpu.example.com/claim=one-gpu-1: GPU=gpu-1"}; !slices.Equal(n.cdiDevicesOfOne(t), want) {
		t.Fatalf("CDI devices %q, want %q", n.cdiDevicesOfOne(t), want)
	}
}

// TestInstancePublishesNext: of two instances one publishes, until it ends in either way.
func TestInstancePublishesNext(t *testing.T) {
	instance := func(number int) func(*Options) {
		return func(o *Options) { o.Instance = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", number)) }
	}
	publishes := func(d *Driver) func() bool { return func() bool { return d.controller() != nil } }
	n := newNode(t)
	n.driver.Stop() // it has no instance
	n.start(t, instance(0))
	for i, end := range []func(*Driver){(*Driver).Stop, func(d *Driver) {
		if err := d.Withdraw(t.Context()); err != nil {
			t.Error(err)
		}
	}} {
		first := n.driver
		first.Update(devices("gpu-0"))
		fakecluster.Eventually(t, "the first publishes", publishes(first))
		n.start(t, instance(i+1))
		n.driver.Update(devices("gpu-0"))
		time.Sleep(10 * time.Millisecond) // it could publish by then
		if publishes(n.driver)() {
			t.Error("both instances publish")
		}
		end(first)
		fakecluster.Eventually(t, "the second publishes", publishes(n.driver))
	}
}

// register says what kubelet says when it registered the driver.
func (n *node) register(t *testing.T) {
	t.Helper()
	client := registration.NewRegistrationClient(n.dial(t, "r/"+driverName+"-reg.sock"))
	if _, err := client.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
}

// TestAwaitKubelet: nothing is published before kubelet can prepare claims, unless it takes too long.
func TestAwaitKubelet(t *testing.T) {
	n := newNode(t)
	n.driver.Stop()
	n.start(t, func(o *Options) { o.AwaitKubelet = time.Hour })
	n.driver.Update(devices("gpu-0"))
	time.Sleep(50 * time.Millisecond) // it could publish by then
	if published := fakecluster.Published(t, n.client); len(published) > 0 {
		t.Errorf("published before kubelet registered the driver: %q", published)
	}
	published := func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0"}) }
	n.register(t)
	fakecluster.Eventually(t, "the device is published", published)

	n = newNode(t)
	n.driver.Stop()
	n.start(t, func(o *Options) { o.AwaitKubelet = time.Millisecond })
	n.driver.Update(devices("gpu-0"))
	fakecluster.Eventually(t, "the device is published without kubelet", published)
}

// TestNewKubelet: a kubelet that starts deletes the slices of its node. They are published again when it registers the
// driver, and not after the delay for what others delete.
func TestNewKubelet(t *testing.T) {
	n := newNode(t)
	n.driver.Stop()
	n.start(t, func(o *Options) { o.RepairDelay = time.Hour })
	n.driver.Update(devices("gpu-0"))
	published := func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0"}) }
	fakecluster.Eventually(t, "the device is published", published)
	for range 2 {
		list, err := n.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, slice := range list.Items {
			if err := n.client.ResourceV1().ResourceSlices().Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		n.register(t)
		began := time.Now()
		fakecluster.Eventually(t, "the device is published again", published)
		if took := time.Since(began); took > 30*time.Second { // without a check, it is after a minute
			t.Errorf("the device was published again only after %v", took)
		}
	}
}
