// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// TestRegistration: drivers are told whether they were accepted; what is no DRA driver is
// left alone; a newer process of a driver takes over, until it is gone.
func TestRegistration(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"), claim("two", []string{gpus}, "b"), claim("three", []string{gpus}, "c"))
	if err := os.WriteFile(filepath.Join(n.registry(), "a-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := startDriver(t, n.registry(), nics, func(d *driver) { d.Versions = []string{"v1alpha4.Node"} })
	toldOf := func(d *driver) (status *registration.RegistrationStatus) {
		d.Set(func() { status = d.Told })
		return status
	}
	fakecluster.Eventually(t, "a refusal", func() bool { return toldOf(old) != nil })
	if told := toldOf(old); told.PluginRegistered || !strings.Contains(told.Error, "but neither v1.DRAPlugin nor v1beta1.DRAPlugin") {
		t.Errorf("told %v", told)
	}
	first := n.driver(t, gpus)
	n.prepare(t, pod("a", "one"))
	// The name of the second socket comes from the driver's, which is then put right.
	second := startDriver(t, n.registry(), "second", func(*driver) {})
	fakecluster.Eventually(t, "registration of the second", func() bool { _, err := n.preparer.plugins.client("second"); return err == nil })
	second.Stop()
	fakecluster.Eventually(t, "the second is gone", func() bool { _, err := n.preparer.plugins.client("second"); return err != nil })
	registered := n.preparer.plugins.registered()
	sub := filepath.Join(n.folder, "s")
	if err := os.Mkdir(sub, 0o750); err != nil {
		t.Fatal(err)
	}
	second = startDriver(t, sub, gpus)
	if err := os.Link(second.Endpoint, filepath.Join(n.registry(), "second.sock")); err != nil {
		t.Fatal(err)
	}
	<-registered
	n.prepare(t, pod("b", "two"))
	same(t, "calls of the second process", second.Taken(), "prepare two")
	if err := os.Remove(filepath.Join(n.registry(), "second.sock")); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "the first serves again", func() bool {
		n.preparer.plugins.mutex.Lock()
		defer n.preparer.plugins.mutex.Unlock()
		return len(n.preparer.plugins.known) == 1
	})
	n.prepare(t, pod("c", "three"))
	same(t, "calls of the first process", first.Taken(), "prepare one", "prepare three")
}

// TestOlderAPI: drivers with the libraries of Kubernetes 1.33 have version v1beta1 of the API only, and kubelet 1.37 calls them.
func TestOlderAPI(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, func(d *driver) { d.Versions = []string{"v1beta1.DRAPlugin"} })
	a := pod("a", "one")
	n.prepare(t, a)
	devices, err := n.preparer.CDIDevices(a)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "devices", devices["main"], gpus+"/claim=one-0", gpus+"/claim=one-1")
	n.release(t, a)
	same(t, "calls", gpu.Taken(), "prepare one", "unprepare one")
}

// TestEndpoint: a driver need not say at which socket it is called. Then it is that of the registration. It has to say its name.
func TestEndpoint(t *testing.T) {
	for _, test := range []struct{ endpoint, want string }{{"", "unix:/r/reg.sock"}, {"/p/dra.sock", "unix:/p/dra.sock"}} {
		found, err := accept("/r/reg.sock", &registration.PluginInfo{Name: gpus, Endpoint: test.endpoint, SupportedVersions: []string{"v1.DRAPlugin"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := found.conn.Target(); got != test.want {
			t.Errorf("endpoint %q: %s, want %s", test.endpoint, got, test.want)
		}
		_ = found.conn.Close()
	}
	_, err := accept("/r/reg.sock", &registration.PluginInfo{SupportedVersions: []string{"v1.DRAPlugin"}})
	contains(t, err, "DRA driver without a name")
}

// TestRegistrationBelow: sockets may be in folders below the registration folder. Names that begin with a dot do not count.
func TestRegistrationBelow(t *testing.T) {
	n := newNode(t)
	in := func(name string) string {
		folder := filepath.Join(n.registry(), filepath.FromSlash(name))
		if err := os.MkdirAll(folder, 0o750); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	startDriver(t, in(".h"), "hidden.example.com")
	startDriver(t, n.registry(), ".hidden")
	later := startDriver(t, in("a/b"), gpus)
	n.registered(t, gpus)
	n.preparer.Stop()
	startDriver(t, in("c"), nics)
	n.start(t)
	n.registered(t, gpus)
	n.registered(t, nics)
	later.Stop()
	fakecluster.Eventually(t, "the end of a driver", func() bool { _, err := n.preparer.plugins.client(gpus); return err != nil })
	for _, hidden := range []string{"hidden.example.com", ".hidden"} {
		if _, err := n.preparer.plugins.client(hidden); err == nil {
			t.Errorf("%s is registered", hidden)
		}
	}
}

// TestDriverRegistersAgain while it prepares a claim: the call goes on.
func TestDriverRegistersAgain(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, func(d *driver) {
		d.During = func(string, string) {
			if err := n.preparer.plugins.update(t.Context(), d.Endpoint); err != nil {
				t.Error(err)
			}
		}
	})
	n.prepare(t, pod("a", "one"))
	same(t, "prepared", gpu.Holds(), "one")
	n.release(t, pod("a"))
	same(t, "prepared", gpu.Holds())
}

// TestMissingDriver: nothing is begun for a pod without its driver, so that nothing has to
// be ended. Await goes on when the driver comes.
func TestMissingDriver(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus, nics}, "a"))
	gpu := n.driver(t, gpus)
	a := pod("a", "one")
	err := n.preparer.Prepare(t.Context(), a)
	contains(t, err, "claim ns/one: driver nic.example.com: not registered")
	if event := <-n.recorder.Events; !strings.Contains(event, "driver nic.example.com: not registered") {
		t.Errorf("event %q", event)
	}
	same(t, "calls of the driver that is there", gpu.Taken())
	if known := n.preparer.records.all(ofPod("a")); len(known) > 0 {
		t.Errorf("noted: %v", known[0])
	}
	done := make(chan error)
	go func() { done <- n.preparer.Await(t.Context(), a) }()
	nic := startDriver(t, n.registry(), nics)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	same(t, "prepared", slices.Concat(gpu.Holds(), nic.Holds()), "one", "one")
}
