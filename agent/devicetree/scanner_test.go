// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/internal/fakekubelet"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

const driver = "gpu.example.com"

func gpu(name string, shares int) inventory.Device {
	return inventory.Device{
		ID:       inventory.ID{Driver: driver, Pool: "node-1", Device: name},
		Type:     "gpu",
		Shares:   shares,
		Topology: inventory.Topology{NUMANodes: []int{1, 0}},
		Edits:    cdispec.ContainerEdits{DeviceNodes: []*cdispec.DeviceNode{{Path: "/dev/" + name}}},
	}
}

func gpus(devices ...inventory.Device) *inventory.Inventory {
	return &inventory.Inventory{Devices: devices}
}

// always says that whatever kubelet leaves out is free.
func always(string) bool { return true }

func TestMain(m *testing.M) { leakcheck.Main(m) }

// plugin is a Scanner that a Manager serves to a kubelet.
type plugin struct {
	testing.TB
	*devicetree.Scanner
	ctx     context.Context
	dir     string
	ledger  *inventory.Ledger
	kubelet *fakekubelet.Kubelet
}

// newPlugin starts all that a node has, until the test ends.
func newPlugin(t testing.TB, in *inventory.Inventory) *plugin {
	t.Helper()
	dir := shortdir.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	var err error
	p := &plugin{TB: t, ctx: ctx, dir: dir, ledger: openLedger(t, dir)}
	p.Scanner = devicetree.NewScanner(ctx, driver, p.ledger)
	p.ledger.OnChange(p.Refresh)
	if p.kubelet, err = fakekubelet.Start(dir, fakekubelet.Options{}); err != nil {
		t.Fatal(err)
	}
	manager := deviceplugin.NewManagerWithOptions(driver, p, deviceplugin.Options{PluginDir: dir, CDIDir: filepath.Join(dir, "cdi")})
	ended := make(chan error)
	go func() { ended <- manager.RunWithContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		p.kubelet.Kill()
	})
	p.Update(in)
	return p
}

func openLedger(t testing.TB, dir string) *inventory.Ledger {
	t.Helper()
	ledger, err := inventory.OpenLedger(filepath.Join(dir, "checkpoint"))
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

// sees waits until kubelet has these devices of a resource, healthy ones only.
func (p *plugin) sees(resource string, ids ...string) {
	p.Helper()
	if err := p.kubelet.WaitFor(p.ctx, driver+"/"+resource, func(devices map[string]*pluginapi.Device) bool {
		healthy := slices.DeleteFunc(slices.Sorted(maps.Keys(devices)), func(id string) bool { return devices[id].GetHealth() != pluginapi.Healthy })
		return slices.Equal(healthy, ids)
	}); err != nil {
		p.Fatal(err)
	}
}

func (p *plugin) claim(in *inventory.Inventory, name string) error {
	return p.ledger.Acquire(in, inventory.FrontDRA, "claim-1", []inventory.ID{gpu(name, 0).ID})
}

func TestDeviceTree(t *testing.T) {
	sick := gpu("gpu-2", 0)
	sick.Health.Unhealthy = true
	foreign := gpu("gpu-0", 0)
	foreign.Driver = "nic.example.com"
	untyped := gpu("gpu-9", 0)
	untyped.Type = ""
	nic := gpu("nic-0", 1)
	nic.Type, nic.Edits = "nic", cdispec.ContainerEdits{}
	in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 3), sick, foreign, untyped, nic)

	tree := devicetree.Of(in, driver, nil)
	if got := slices.Sorted(maps.Keys(tree["gpu"])); !slices.Equal(got, []string{"gpu-0", "gpu-1::0", "gpu-1::1", "gpu-1::2", "gpu-2"}) {
		t.Errorf("GPUs %v", got)
	}
	if got := slices.Sorted(maps.Keys(tree)); !slices.Equal(got, []string{"gpu", "nic"}) || tree.DeviceTypeCount("nic") != 1 {
		t.Errorf("types %v", got)
	}

	same := gpu("gpu-0", 0)
	same.Pool = "pool-b"
	tree = devicetree.Of(gpus(gpu("gpu-0", 0), gpu("gpu-1", 0), same), driver, nil)
	if got := slices.Sorted(maps.Keys(tree["gpu"])); !slices.Equal(got, []string{"gpu-1", "node-1/gpu-0", "pool-b/gpu-0"}) {
		t.Errorf("devices with one name in two pools: %v", got)
	}
	if got := devicetree.Of(gpus(), driver, nil); len(got) != 0 {
		t.Errorf("no devices make %v", got)
	}
}

// What kubelet sees and what a container gets of a record.
func TestRecordsAreServed(t *testing.T) {
	sick := gpu("gpu-2", 0)
	sick.Health = inventory.Health{Unhealthy: true, Message: "it fell off the bus"}
	bare := gpu("gpu-3", 0)
	bare.Edits = cdispec.ContainerEdits{}
	p := newPlugin(t, gpus(gpu("gpu-0", 0), gpu("gpu-1", 2), sick, bare))
	p.sees("gpu", "gpu-0", "gpu-1::0", "gpu-1::1", "gpu-3")
	if nodes := p.kubelet.Devices("gpu.example.com/gpu")["gpu-0"].GetTopology().GetNodes(); len(nodes) != 2 || nodes[0].GetID() != 1 || nodes[1].GetID() != 0 {
		t.Errorf("topology %v", nodes)
	}
	for ids, want := range map[string]string{"gpu-0": "gpu.example.com/gpu=gpu-0", "gpu-1::0,gpu-1::1": "gpu.example.com/gpu=gpu-1", "gpu-3": ""} {
		got, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/gpu", strings.Split(ids, ",")...)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, device := range got.Response.GetCdiDevices() {
			names = append(names, device.GetName())
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s gives %v, want %q", ids, names, want)
		}
	}
	for id, want := range map[string]string{"gpu-2": "it fell off the bus", "gpu-7": "gpu-7 of gpu.example.com: not on this node"} {
		if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/gpu", id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("allocate %s: %v, want %q", id, err, want)
		}
	}
	p.Update(gpus(gpu("gpu-0", 0)))
	p.sees("gpu", "gpu-0")
}

func TestDeviceOfAClaimIsNotHandedOut(t *testing.T) {
	in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 2))
	p := newPlugin(t, in)
	p.sees("gpu", "gpu-0", "gpu-1::0", "gpu-1::1")
	for _, name := range []string{"gpu-0", "gpu-1"} {
		if err := p.claim(in, name); err != nil {
			t.Fatal(err)
		}
	}
	p.sees("gpu")
	// Kubelet may ask before it has the new list.
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/gpu", "gpu-1::1"); err == nil || !strings.Contains(err.Error(), "in use by dra claim-1") {
		t.Errorf("a device of a claim: %v", err)
	}
	if err := p.ledger.Release(inventory.FrontDRA, "claim-1"); err != nil {
		t.Fatal(err)
	}
	p.sees("gpu", "gpu-0", "gpu-1::0", "gpu-1::1")
}

func TestDeviceOfAContainerIsNotClaimed(t *testing.T) {
	in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 2))
	p := newPlugin(t, in)
	p.sees("gpu", "gpu-0", "gpu-1::0", "gpu-1::1")
	for range 2 { // a container that is started anew
		if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/gpu", "gpu-0"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.claim(in, "gpu-0"); err == nil || !strings.Contains(err.Error(), "in use by device-plugin gpu.example.com/gpu-0") {
		t.Errorf("a claim for the device of a container: %v", err)
	}
	if err := p.claim(in, "gpu-1"); err != nil {
		t.Error(err)
	}
	// It survives a restart.
	if holds := openLedger(t, p.dir).Holds(); len(holds) != 2 {
		t.Errorf("the checkpoint has %v", holds)
	}
}

// A network controller and its virtual functions exclude each other, and kubelet
// does not know it.
func TestDevicesThatShareCountersExcludeEachOther(t *testing.T) {
	consuming := func(name, deviceType string, n int64) inventory.Device {
		device := gpu(name, 0)
		device.Type = deviceType
		device.Consumes = []resourceapi.DeviceCounterConsumption{{CounterSet: "functions", Counters: counters(n)}}
		return device
	}
	in := gpus(consuming("nic-0", "nic", 2), consuming("vf-0", "vf", 1), consuming("vf-1", "vf", 1))
	in.CounterSets = []inventory.CounterSet{{Driver: driver, Pool: "node-1", CounterSet: resourceapi.CounterSet{Name: "functions", Counters: counters(2)}}}
	p := newPlugin(t, in)
	p.sees("nic", "nic-0")
	p.sees("vf", "vf-0", "vf-1")
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/vf", "vf-0"); err != nil {
		t.Fatal(err)
	}
	p.sees("nic")
	p.sees("vf", "vf-0", "vf-1")
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/nic", "nic-0"); err == nil || !strings.Contains(err.Error(), "leave too little of its counters") {
		t.Errorf("the controller of a virtual function in use: %v", err)
	}
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/vf", "vf-0", "vf-1"); err != nil {
		t.Errorf("both virtual functions: %v", err)
	}
	if err := p.ledger.Update(func([]inventory.Hold) []inventory.Hold { return nil }); err != nil {
		t.Fatal(err)
	}
	p.sees("nic", "nic-0")
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/nic", "nic-0"); err != nil {
		t.Fatal(err)
	}
	p.sees("vf")
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/nic", "nic-0"); err != nil {
		t.Errorf("the controller once more: %v", err)
	}
}

func counters(n int64) map[string]resourceapi.Counter {
	return map[string]resourceapi.Counter{"functions": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
}

// All devices of a container or none.
func TestAllocateAcquiresAllOrNone(t *testing.T) {
	in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 0), gpu("gpu-2", 0))
	p := newPlugin(t, in)
	p.sees("gpu", "gpu-0", "gpu-1", "gpu-2")
	if err := p.claim(in, "gpu-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/gpu", "gpu-2"); err != nil {
		t.Fatal(err)
	}
	before := p.ledger.Holds()
	for _, ids := range [][]string{{"gpu-0", "gpu-1"}, {"gpu-2", "gpu-1"}, {"gpu-0", "gpu-7"}} {
		if _, err := p.kubelet.AllocateIDs(p.ctx, "gpu.example.com/gpu", ids...); err == nil {
			t.Errorf("%v were allocated", ids)
		}
		if after := p.ledger.Holds(); !slices.Equal(after, before) {
			t.Errorf("holds %v after a refusal, %v before", after, before)
		}
	}
}

// Kubelet says over its other socket what is free again.
func TestFreedDeviceCanBeClaimed(t *testing.T) {
	in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 0))
	p := newPlugin(t, in)
	p.sees("gpu", "gpu-0", "gpu-1")
	socket := filepath.Join(p.dir, "pod-resources")
	if err := p.kubelet.ServePodResources(socket); err != nil {
		t.Fatal(err)
	}
	allocation, err := p.kubelet.Allocate(p.ctx, "gpu.example.com/gpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	// Another process.
	scanner := devicetree.NewScanner(p.ctx, driver, p.ledger)
	scanner.SetSettling(0)
	scanner.Update(in)
	sync := func() {
		t.Helper()
		answer, err := podresources.List(p.ctx, socket)
		if err == nil {
			err = scanner.SetInUse(devicetree.Report{Asked: answer.Asked, InUse: answer.InUse, Free: always})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if err := p.claim(in, "gpu-1"); err == nil {
		t.Error("a device in use was claimed") // kubelet takes the last
	}
	p.kubelet.Free(allocation)
	sync()
	if err := p.claim(in, "gpu-1"); err != nil {
		t.Error(err)
	}
	sync()
	if holds := p.ledger.Holds(); len(holds) != 1 || holds[0].Front != inventory.FrontDRA {
		t.Errorf("holds %v, want the claim's", holds)
	}
}

// Kubelet may not yet say that a device is in use which it just allocated.
func TestRecentAllocationIsKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		in := gpus(gpu("gpu-0", 0))
		ledger := openLedger(t, dir)
		scanner := devicetree.NewScanner(t.Context(), driver, ledger)
		scanner.Update(in)
		request := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu-0"}}}}
		if _, err := scanner.Allocate(request); err == nil || err.Error() != (&deviceplugin.UseDefaultMethodError{}).Error() {
			t.Fatalf("Allocate returns %v", err)
		}
		time.Sleep(time.Second)
		if err := scanner.SetInUse(devicetree.Report{Asked: time.Now(), Free: always}); err != nil || len(ledger.Holds()) != 1 {
			t.Errorf("after a second: holds %v (%v)", ledger.Holds(), err)
		}
		time.Sleep(2 * time.Minute)
		for what, report := range map[string]devicetree.Report{
			"nothing is known":            {Asked: time.Now()},
			"it may be an init container": {Asked: time.Now(), Free: func(resource string) bool { return resource != driver+"/gpu" }},
			"asked before the allocation": {Asked: time.Now().Add(-time.Hour), Free: always},
		} {
			if err := scanner.SetInUse(report); err != nil || len(ledger.Holds()) != 1 {
				t.Errorf("%s: holds %v (%v)", what, ledger.Holds(), err)
			}
		}
		// A report of the inventory misses the device, as while a GPU is reset.
		scanner.Update(gpus())
		if err := scanner.SetInUse(devicetree.Report{Asked: time.Now(), Free: always}); err != nil || len(ledger.Holds()) != 1 {
			t.Errorf("a device that is not in the inventory: holds %v (%v)", ledger.Holds(), err)
		}
		scanner.Update(in)
		if err := scanner.SetInUse(devicetree.Report{Asked: time.Now(), Free: always}); err != nil || len(ledger.Holds()) != 0 {
			t.Errorf("after two minutes: holds %v (%v)", ledger.Holds(), err)
		}
		other := inventory.Hold{Device: inventory.ID{Driver: "nic.example.com", Pool: "node-1", Device: "nic-0"}, Front: inventory.FrontDevicePlugin, User: "x"}
		if err := ledger.Update(func([]inventory.Hold) []inventory.Hold { return []inventory.Hold{other} }); err != nil {
			t.Fatal(err)
		}
		if err := scanner.SetInUse(devicetree.Report{
			Asked: time.Now(), InUse: map[string][]string{"gpu.example.com/gpu": {"gpu-0", "gpu-7"}, "nic.example.com/gpu": {"gpu-0"}}, Free: always,
		}); err != nil {
			t.Fatal(err)
		}
		if holds := ledger.Holds(); len(holds) != 2 || !slices.Contains(holds, other) {
			t.Errorf("holds %v, want one and another driver's", holds)
		}
	})
}

func TestScannerWithoutInventory(t *testing.T) {
	scanner := devicetree.NewScanner(t.Context(), driver, openLedger(t, t.TempDir()))
	request := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu-0"}}}}
	if _, err := scanner.Allocate(request); err == nil || !strings.Contains(err.Error(), "no devices are known") {
		t.Errorf("Allocate: %v", err)
	}
	if err := scanner.SetInUse(devicetree.Report{Free: always}); err != nil {
		t.Errorf("SetInUse: %v", err)
	}
}

// Kubelet says that a container has a device of a claim: its ledger was lost, or the driver's.
func TestConflictIsTold(t *testing.T) {
	in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 0))
	ledger := openLedger(t, t.TempDir())
	scanner := devicetree.NewScanner(t.Context(), driver, ledger)
	scanner.Update(in)
	if err := ledger.Acquire(in, inventory.FrontDRA, "claim-1", []inventory.ID{gpu("gpu-0", 0).ID}); err != nil {
		t.Fatal(err)
	}
	report := devicetree.Report{Asked: time.Now(), InUse: map[string][]string{driver + "/gpu": {"gpu-0", "gpu-1"}}, Free: always}
	for range 2 {
		if err := scanner.SetInUse(report); err != nil {
			t.Fatal(err)
		}
		conflicts := ledger.Conflicts()
		if len(conflicts) != 1 || conflicts[0].Claim.User != "claim-1" || conflicts[0].Plugin.Device.Device != "gpu-0" {
			t.Errorf("conflicts %v", conflicts)
		}
	}
	// Nor does the same one get it again, as kubelet's next container would.
	if _, err := scanner.Allocate(&pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu-0"}}}}); err == nil || !strings.Contains(err.Error(), "in use by dra claim-1") {
		t.Errorf("kubelet is answered %v", err)
	}
	if err := ledger.Acquire(in, inventory.FrontDRA, "claim-1", []inventory.ID{gpu("gpu-0", 0).ID}); err == nil {
		t.Error("the claim got it once more")
	}
	// Neither front gives it to anybody else.
	if err := ledger.Acquire(in, inventory.FrontDRA, "claim-2", []inventory.ID{gpu("gpu-0", 0).ID}); err == nil {
		t.Error("another claim has it, too")
	}
	if used := ledger.UsedBy(in, inventory.FrontDRA); !used(gpu("gpu-0", 0).ID) || used(gpu("gpu-1", 0).ID) {
		t.Error("kubelet is not told that gpu-0 cannot be had, or that gpu-1 cannot")
	}
	if err := ledger.Release(inventory.FrontDRA, "claim-1"); err != nil {
		t.Fatal(err)
	}
	if err := scanner.SetInUse(report); err != nil || len(ledger.Conflicts()) > 0 {
		t.Errorf("after the claim gave it back: %v, %v", err, ledger.Conflicts())
	}
}

// TestRebuild: what kubelet does not say is assumed, and ends with what is known later.
func TestRebuild(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		nic := gpu("nic-0", 0)
		nic.Type = "nic"
		in := gpus(gpu("gpu-0", 0), gpu("gpu-1", 0), gpu("gpu-2", 0), nic)
		ledger, err := inventory.OpenLedger(filepath.Join(dir, "ledger"))
		if err != nil {
			t.Fatal(err)
		}
		claimed := inventory.Hold{Device: in.Devices[2].ID, Front: inventory.FrontDRA, User: "claim"}
		if err := ledger.Rebuild(inventory.FrontDRA, []inventory.Hold{claimed}); err != nil {
			t.Fatal(err)
		}
		scanner := devicetree.NewScanner(t.Context(), driver, ledger)
		if err := scanner.Rebuild(devicetree.Report{}); err == nil {
			t.Error("rebuilt without an inventory")
		}
		scanner.Update(in)
		report := devicetree.Report{Asked: time.Now(), InUse: map[string][]string{driver + "/gpu": {"gpu-0"}}, Free: func(resource string) bool { return resource != driver+"/gpu" }}
		if err := scanner.Rebuild(report); err != nil {
			t.Fatal(err)
		}
		plugin := func(name string, assumed bool) inventory.Hold {
			return inventory.Hold{Device: gpu(name, 0).ID, Front: inventory.FrontDevicePlugin, User: driver + "/" + name, Assumed: assumed}
		}
		if got, want := ledger.Holds(), []inventory.Hold{plugin("gpu-0", false), plugin("gpu-1", true), claimed}; !slices.Equal(got, want) {
			t.Errorf("holds %v, want %v", got, want)
		}
		for range 2 { // the first time, it does not know how old the holds are
			time.Sleep(2 * time.Minute)
			if err := scanner.SetInUse(report); err != nil || len(ledger.Holds()) != 3 {
				t.Errorf("nothing new is known: %v, holds %v", err, ledger.Holds())
			}
		}
		report.Asked, report.Free = time.Now(), always
		if err := scanner.SetInUse(report); err != nil {
			t.Fatal(err)
		}
		if got, want := ledger.Holds(), []inventory.Hold{plugin("gpu-0", false), claimed}; !slices.Equal(got, want) {
			t.Errorf("holds %v, want %v", got, want)
		}
	})
}

// TestGraceOfOtherScanners: how long ago a device was allocated is not known to a process that did
// not see it.
func TestGraceOfOtherScanners(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		in := gpus(gpu("gpu-0", 0))
		request := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu-0"}}}}
		first := devicetree.NewScanner(t.Context(), driver, openLedger(t, dir))
		first.Update(in)
		allocate := func() {
			t.Helper()
			if _, err := first.Allocate(request); err == nil || err.Error() != (&deviceplugin.UseDefaultMethodError{}).Error() {
				t.Fatalf("Allocate returns %v", err)
			}
		}
		allocate()
		ledger := openLedger(t, dir)
		second := devicetree.NewScanner(t.Context(), driver, ledger)
		second.Update(in)
		keeps := func(what string, want int) {
			t.Helper()
			if err := second.SetInUse(devicetree.Report{Asked: time.Now(), Free: always}); err != nil || len(ledger.Holds()) != want {
				t.Errorf("%s: %v, holds %v, want %d", what, err, ledger.Holds(), want)
			}
		}
		keeps("just started", 1)
		time.Sleep(50 * time.Second)
		keeps("within a minute", 1)
		allocate() // to another container
		time.Sleep(20 * time.Second)
		keeps("allocated again", 1)
		time.Sleep(50 * time.Second)
		keeps("within a minute of that", 1)
		time.Sleep(time.Hour)
		second.Silent()
		keeps("kubelet was down for an hour", 1)
		time.Sleep(50 * time.Second)
		time.Sleep(30 * time.Second)
		keeps("later", 0)
	})
}
