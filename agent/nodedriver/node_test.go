// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience is for machines that have other things to do.
const patience = 5 * time.Minute

var gpu0 = inventory.ID{Driver: "gpu.example.com", Pool: fakecluster.NodeName, Device: "gpu-0"}

var oneGPU = &inventory.Inventory{Devices: []inventory.Device{{ID: gpu0, Type: "gpu"}}}

// stubSource reports one inventory, and ends with what it is sent.
type stubSource struct {
	in    *inventory.Inventory
	fail  chan error
	atEnd error // what it returns when ctx is done
}

func (s *stubSource) Run(ctx context.Context, report func(*inventory.Inventory)) error {
	report(s.in)
	select {
	case <-ctx.Done():
		return s.atEnd
	case err := <-s.fail:
		return err
	}
}

// rig is a node that runs.
type rig struct {
	*Node
	t      *testing.T
	client *fake.Clientset
	source *stubSource
	cancel context.CancelFunc
	done   chan error
}

// startRig runs a node in kubeletDir.
func startRig(t *testing.T, kubeletDir string, change func(*rig, *Options), objects ...runtime.Object) *rig {
	t.Helper()
	r := &rig{t: t, client: fakecluster.NewClient(objects...), source: &stubSource{in: oneGPU, fail: make(chan error)}, done: make(chan error, 1)}
	options := Options{NodeName: fakecluster.NodeName, Client: r.client, Source: r.source, KubeletDir: kubeletDir, CDIDir: filepath.Join(kubeletDir, "cdi")}
	if change != nil {
		change(r, &options)
	}
	var err error
	if r.Node, err = New(options); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	t.Cleanup(r.cancel)
	go func() { r.done <- r.Run(ctx) }()
	return r
}

func (r *rig) publishes(want ...string) {
	r.t.Helper()
	fakecluster.Eventually(r.t, strings.Join(want, ", "), func() bool { return slices.Equal(fakecluster.Published(r.t, r.client), want) })
}

func (r *rig) waitsFor(want string) {
	r.t.Helper()
	var err error
	fakecluster.Eventually(r.t, want, func() bool {
		err = r.Ready()
		return err != nil && strings.Contains(err.Error(), want)
	})
	if got := fakecluster.Published(r.t, r.client); len(got) > 0 {
		r.t.Errorf("%q are published, and it waits: %v", got, err)
	}
}

func (r *rig) end() error {
	r.t.Helper()
	r.cancel()
	return r.ended()
}

func (r *rig) ended() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.t.Fatal("it does not end")
		return nil
	}
}

// open is the ledger of the driver, for somebody who knows all users.
func open(t *testing.T, kubeletDir string) *inventory.Ledger {
	t.Helper()
	path := LedgerPath(kubeletDir, gpu0.Driver)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	ledger, err := inventory.OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, front := range inventory.Fronts {
		if err := ledger.Rebuild(front, nil); err != nil {
			t.Fatal(err)
		}
	}
	return ledger
}

// pluggedPod is a pod with a device of the device plugin, and what kubelet says of it.
func pluggedPod(name string) (*corev1.Pod, *podresourcesapi.PodResources) {
	wants := corev1.ResourceRequirements{Requests: corev1.ResourceList{"gpu.example.com/gpu": resource.MustParse("1")}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-pod"},
		Spec:   corev1.PodSpec{NodeName: fakecluster.NodeName, Containers: []corev1.Container{{Name: "main", Resources: wants}}},
		Status: corev1.PodStatus{StartTime: ptr.To(metav1.Now())}}
	return pod, &podresourcesapi.PodResources{Namespace: "ns", Name: name, Containers: []*podresourcesapi.ContainerResources{{
		Name: "main", Devices: []*podresourcesapi.ContainerDevices{{ResourceName: "gpu.example.com/gpu", DeviceIds: []string{"gpu-0"}}},
	}}}
}

func allocatedClaim() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim-uid"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: gpu0.Driver, Pool: gpu0.Pool, Device: gpu0.Device}},
	}}
	return claim
}

func TestOptions(t *testing.T) {
	for want, options := range map[string]Options{
		"node name is empty": {},
		"client is nil":      {NodeName: "n"},
		"source is nil":      {NodeName: "n", Client: fake.NewClientset()},
	} {
		if _, err := New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestSourceLost(t *testing.T) {
	r := startRig(t, shortdir.New(t), nil)
	r.publishes("gpu-0")
	r.source.fail <- errors.New("cable pulled")
	r.publishes("gpu-0 gpu.example.com/source-lost")
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "cannot be watched any more: cable pulled") || len(fakecluster.Published(t, r.client)) != 1 {
		t.Errorf("ended with %v, left %q", err, fakecluster.Published(t, r.client))
	}
}

// TestSourceEnds without an error, and with the one of ctx, as sources of others may.
func TestSourceEnds(t *testing.T) {
	r := startRig(t, shortdir.New(t), nil)
	r.publishes("gpu-0")
	r.source.fail <- nil
	r.publishes("gpu-0 gpu.example.com/source-lost")
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "cannot be watched any more: the source ended") {
		t.Errorf("ended with %v", err)
	}

	r = startRig(t, shortdir.New(t), func(r *rig, _ *Options) { r.source.atEnd = context.Canceled })
	r.publishes("gpu-0")
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if got := fakecluster.Published(t, r.client); !slices.Equal(got, []string{"gpu-0"}) {
		t.Errorf("left %q", got)
	}
}

// TestRebuild: what both fronts handed out is known before anything is served.
func TestRebuild(t *testing.T) {
	claimed := inventory.Hold{Device: gpu0, Front: inventory.FrontDRA, User: "claim-uid", Assumed: true}
	plugged := inventory.Hold{Device: gpu0, Front: inventory.FrontDevicePlugin, User: "gpu.example.com/gpu-0"}
	for name, content := range map[string]string{"missing": "", "damaged": "{"} {
		t.Run(name, func(t *testing.T) {
			for _, plugin := range []bool{false, true} {
				dir := shortdir.New(t)
				if content != "" {
					open(t, dir) // makes the folder
					if err := os.WriteFile(LedgerPath(dir, gpu0.Driver), []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				objects, want, taint := []runtime.Object{allocatedClaim()}, claimed, ""
				if plugin {
					pod, told := pluggedPod("p")
					startKubelet(t, dir, told)
					objects, want, taint = []runtime.Object{pod}, plugged, " gpu.example.com/in-use-by-device-plugin"
				}
				r := startRig(t, dir, nil, objects...)
				r.publishes("gpu-0" + taint)
				if got := r.Holds(); !slices.Equal(got, []inventory.Hold{want}) {
					t.Errorf("holds %v, want %v", got, want)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestWaits: what cannot be known is said, and nothing is served before.
func TestWaits(t *testing.T) {
	pod, told := pluggedPod("p")
	forbidden := func(r *rig, resource string) {
		r.client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New(resource + " are forbidden")
		})
	}
	for name, c := range map[string]struct {
		kubelet bool
		change  func(*rig, *Options)
		want    string // nothing: it serves
	}{
		"kubelet's socket is not there, and a pod has a device": {change: nil, want: "pod ns/p is to have some, and kubelet's socket"},
		"pods cannot be listed":                                 {kubelet: true, change: func(r *rig, _ *Options) { forbidden(r, "pods") }, want: "pods of the node: pods are forbidden"},
		"claims cannot be listed":                               {kubelet: true, change: func(r *rig, _ *Options) { forbidden(r, "resourceclaims") }, want: "list ResourceClaims: resourceclaims are forbidden"},
		"all is known":                                          {kubelet: true},
		"there is no kubelet":                                   {change: func(_ *rig, o *Options) { o.NoKubelet = true }},
		"the device plugin is not served": {change: func(_ *rig, o *Options) { o.Fronts = []inventory.Front{inventory.FrontDRA} },
			want: "pod ns/p is to have some, and kubelet's socket"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortdir.New(t)
			if c.kubelet {
				startKubelet(t, dir, told)
			}
			r := startRig(t, dir, c.change, pod)
			if c.want != "" {
				r.waitsFor(c.want)
			} else {
				fakecluster.Eventually(t, "it is served", func() bool { return len(fakecluster.Published(t, r.client)) == 1 })
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSocketInUse: the node ends with what went wrong in the background.
func TestSocketInUse(t *testing.T) {
	dir := shortdir.New(t)
	if err := os.WriteFile(filepath.Join(dir, "device-plugins"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRig(t, dir, nil)
	if err := r.ended(); err == nil || !strings.Contains(err.Error(), "device plugin of gpu.example.com") {
		t.Errorf("ended with %v", err)
	}
}

// TestSecondNode: one process serves a driver, and another one changes nothing before it says so.
func TestSecondNode(t *testing.T) {
	dir := shortdir.New(t)
	first := startRig(t, dir, nil)
	first.publishes("gpu-0")
	second := startRig(t, dir, nil)
	var locked *checkpoint.LockedError
	if err := second.ended(); !errors.As(err, &locked) || !strings.Contains(err.Error(), "another process serves it on this node") {
		t.Errorf("ended with %v", err)
	}
	if err := first.Healthy(); err != nil {
		t.Error(err)
	}
	mixed := startRig(t, dir, func(_ *rig, o *Options) { o.Instance = "uid" })
	if err := mixed.ended(); !errors.As(err, &locked) {
		t.Errorf("with an instance, it ended with %v", err)
	}
	// Another driver has a ledger of its own.
	nic := startRig(t, dir, func(r *rig, _ *Options) {
		r.source.in = &inventory.Inventory{Devices: []inventory.Device{{ID: inventory.ID{Driver: "nic.example.com", Pool: fakecluster.NodeName, Device: "nic-0"}}}}
	})
	nic.publishes("nic-0")
	if LedgerPath(dir, "nic.example.com") == LedgerPath(dir, gpu0.Driver) {
		t.Error("two drivers have one ledger")
	}
	if err := os.Remove(filepath.Join(dir, "plugins", "gpu.example.com", "dra.sock")); err != nil {
		t.Fatal(err)
	}
	if err := first.Healthy(); err == nil || !strings.Contains(err.Error(), "dra.sock") {
		t.Errorf("a socket is gone, and health is %v", err)
	}
	for _, r := range []*rig{first, nic} {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	}
}

// TestInstances: a new instance serves beside the old one, from the same ledger, and publishes when
// the old one ends.
func TestInstances(t *testing.T) {
	dir := shortdir.New(t)
	startKubelet(t, dir)
	instance := func(name string) func(*rig, *Options) {
		return func(_ *rig, o *Options) { o.Instance = types.UID("00000000-0000-0000-0000-00000000000" + name) }
	}
	one := startRig(t, dir, instance("1"))
	one.publishes("gpu-0")
	// One that was killed left its sockets.
	for _, path := range []string{"plugins_registry/gpu.example.com-%s-reg.sock", "plugins/gpu.example.com/dra-%s.sock"} {
		left, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, fmt.Sprintf(path, "00000000-0000-0000-0000-000000000009"))})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
	two := startRig(t, dir, instance("2"))
	served := func(r *rig) bool { return len(r.all()) == 1 && r.all()[0].dra.Load() != nil }
	fakecluster.Eventually(t, "the second is served", func() bool { return served(two) })
	if err := one.all()[0].ledger.Load().Acquire(oneGPU, inventory.FrontDRA, "claim", []inventory.ID{gpu0}); err != nil {
		t.Fatal(err)
	}
	var inUse *inventory.InUseError
	if err := two.all()[0].ledger.Load().Acquire(oneGPU, inventory.FrontDevicePlugin, "container", []inventory.ID{gpu0}); !errors.As(err, &inUse) {
		t.Errorf("the second instance gave the device of the first away: %v", err)
	}
	if err := two.all()[0].ledger.Load().Release(inventory.FrontDRA, "claim"); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "the first knows that the device is free", func() bool { return len(one.Holds()) == 0 })
	for _, r := range []*rig{one, two} {
		if err := r.Healthy(); err != nil {
			t.Error(err)
		}
	}
	if got := fakecluster.Published(t, two.client); len(got) > 0 {
		t.Errorf("both instances publish: %q", got)
	}
	if err := one.end(); err != nil {
		t.Error(err)
	}
	two.publishes("gpu-0")
	if err := two.Healthy(); err != nil {
		t.Error(err)
	}
	if err := two.end(); err != nil {
		t.Error(err)
	}
	for _, folder := range []string{"device-plugins", "plugins_registry", "plugins/gpu.example.com"} {
		if left, err := filepath.Glob(filepath.Join(dir, folder, "*.sock")); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %q", folder, left)
		}
	}
}

// TestConflictIsTold as an Event, once.
func TestConflictIsTold(t *testing.T) {
	dir := shortdir.New(t)
	if err := open(t, dir).Acquire(oneGPU, inventory.FrontDRA, "claim-uid", []inventory.ID{gpu0}); err != nil {
		t.Fatal(err)
	}
	pod, told := pluggedPod("p")
	kubelet := startKubelet(t, dir, told)
	r := startRig(t, dir, nil, pod)
	events := func() []corev1.Event {
		list, err := r.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	look := func() {
		r.kubelet.wakeUp()
	}
	fakecluster.Eventually(t, "an Event", func() bool { look(); return len(events()) > 0 })
	event := events()[0]
	if event.Reason != "DeviceHasTwoUsers" || event.InvolvedObject.Kind != "Node" || event.InvolvedObject.Name != fakecluster.NodeName || !strings.Contains(event.Message, "claim claim-uid has device gpu.example.com") {
		t.Errorf("event %v", event)
	}
	for range 5 {
		look()
		time.Sleep(20 * time.Millisecond)
	}
	if got := events(); len(got) != 1 || got[0].Count > 1 {
		t.Errorf("%d events, the first %d times", len(got), got[0].Count)
	}
	if got := r.Conflicts()[gpu0.Driver]; len(got) != 1 {
		t.Errorf("conflicts %v", got)
	}
	kubelet.mutex.Lock()
	kubelet.pods = nil
	kubelet.mutex.Unlock()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// TestContestedPoolIsTold as an Event of the node, which counts how often.
func TestContestedPoolIsTold(t *testing.T) {
	r := startRig(t, shortdir.New(t), func(_ *rig, o *Options) {
		o.RepairDelay, o.Fronts = 20*time.Millisecond, []inventory.Front{inventory.FrontDRA}
	})
	var told []corev1.Event
	fakecluster.Eventually(t, "an Event that counts", func() bool {
		published, err := r.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, slice := range published.Items {
			if err := r.client.ResourceV1().ResourceSlices().Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := r.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told = list.Items
		return len(told) > 0 && told[0].Count > 1
	})
	want := fmt.Sprintf("driver %s, pool %q: somebody else keeps undoing", gpu0.Driver, gpu0.Pool)
	if event := told[0]; len(told) > 1 || event.Reason != "PoolHasTwoPublishers" || event.InvolvedObject.Name != fakecluster.NodeName || !strings.Contains(event.Message, want) {
		t.Errorf("%d events, the first is %v", len(told), event)
	}
	if repairs := r.Repairs(); len(repairs) != 1 || repairs[gpu0.Driver] < 1 {
		t.Errorf("repairs %v, want some of driver %s", repairs, gpu0.Driver)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
