// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	draycdi "github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/internal/fakekubelet"
)

func withSpec(spec *cdispec.Spec) DeviceInfo {
	return NewDeviceInfo(pluginapi.Healthy, nil, nil, nil, nil, spec)
}

// gpus has devices by ID, each with a CDI spec.
func gpus(specs map[string]*cdispec.Spec) DeviceTree {
	t := tree()
	for id, spec := range specs {
		t.AddDevice("gpu", id, withSpec(spec))
	}
	return t
}

// resolves returns what a container runtime finds: device nodes by CDI device.
func (n *node) resolves() map[string]string {
	n.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.cdi), cdi.WithAutoRefresh(false))
	if err == nil {
		err = cache.Refresh() // which reports conflicts
	}
	if err != nil {
		n.Fatal(err)
	}
	found := make(map[string]string)
	for _, name := range cache.ListDevices() {
		found[name] = cache.GetDevice(name).ContainerEdits.DeviceNodes[0].Path
	}
	return found
}

func (n *node) assertResolves(when string, want map[string]string) {
	n.Helper()
	if got := n.resolves(); fmt.Sprint(got) != fmt.Sprint(want) {
		n.Errorf("%s a runtime finds %v, want %v", when, got, want)
	}
}

const cdiGPU = CDIVendor + "/gpu="

func TestCDIFilesFollowDevices(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	zero, one, moved := gpuSpec("gpu-0", "/dev/gpu0"), gpuSpec("gpu-1", "/dev/gpu1"), gpuSpec("gpu-0", "/dev/gpu7")
	for _, step := range []struct {
		when string
		tree DeviceTree
		want map[string]string
	}{
		{"with two devices", gpus(map[string]*cdispec.Spec{"0": zero, "1": one}), map[string]string{cdiGPU + "gpu-0": "/dev/gpu0", cdiGPU + "gpu-1": "/dev/gpu1"}},
		{"after edits changed", gpus(map[string]*cdispec.Spec{"0": moved, "1": one}), map[string]string{cdiGPU + "gpu-0": "/dev/gpu7", cdiGPU + "gpu-1": "/dev/gpu1"}},
		{"after a device is gone", gpus(map[string]*cdispec.Spec{"0": moved}), map[string]string{cdiGPU + "gpu-0": "/dev/gpu7"}},
		{"after it was renamed", gpus(map[string]*cdispec.Spec{"0": one}), map[string]string{cdiGPU + "gpu-1": "/dev/gpu1"}},
		{"after it has no CDI device", tree("0"), nil},
		{"after it has one again", gpus(map[string]*cdispec.Spec{"0": zero}), map[string]string{cdiGPU + "gpu-0": "/dev/gpu0"}},
		{"after the type is gone", NewDeviceTree(), nil},
	} {
		plugin.Notify(step.tree)
		n.assertResolves(step.when, step.want)
	}
	if got := n.files(n.cdi); got != nil {
		t.Errorf("files that are left: %v", got)
	}
}

// Shares of a device are devices to kubelet, and one to the runtime.
func TestDevicesMayShareACDIDevice(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	spec := gpuSpec("gpu-0", "/dev/gpu0")
	plugin := n.serve()
	shared := gpus(map[string]*cdispec.Spec{"0-0": spec, "0-1": spec})
	shared.AddDevice("gpu-monitoring", "all", withSpec(spec))
	plugin.Notify(shared)
	n.assertResolves("with shares", map[string]string{cdiGPU + "gpu-0": "/dev/gpu0"})
	n.sees(kubelet, gpu, "0-0", "0-1")
	got, err := kubelet.Allocate(n.ctx, gpu, 2)
	if err != nil || len(got.Response.GetCdiDevices()) != 1 {
		t.Errorf("two shares give %v (%v)", got, err)
	}
	plugin.Notify(gpus(map[string]*cdispec.Spec{"0-1": spec}))
	n.assertResolves("with one share left", map[string]string{cdiGPU + "gpu-0": "/dev/gpu0"})
}

func TestCDIDeviceThatIsDefinedTwiceIsNotAllocated(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	plugin := n.serve()
	plugin.Notify(gpus(map[string]*cdispec.Spec{"0": gpuSpec("gpu-0", "/dev/gpu0"), "1": gpuSpec("gpu-0", "/dev/gpu1")}))
	n.sees(kubelet, gpu, "0", "1")
	for _, id := range []string{"0", "1"} {
		if _, err := kubelet.AllocateIDs(n.ctx, gpu, id); err == nil || !strings.Contains(err.Error(), "devices gpu 0 and gpu 1 define it differently") {
			t.Errorf("allocate %s: %v", id, err)
		}
	}
}

// Somebody cleans the directory, or it is lost with a reboot.
func TestAllocateWritesAMissingCDIFile(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	n.serve().Notify(gpus(map[string]*cdispec.Spec{"0": gpuSpec("gpu-0", "/dev/gpu0")}))
	n.sees(kubelet, gpu, "0")
	if err := os.RemoveAll(n.cdi); err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.AllocateIDs(n.ctx, gpu, "0"); err != nil {
		t.Fatal(err)
	}
	n.assertResolves("after Allocate", map[string]string{cdiGPU + "gpu-0": "/dev/gpu0"})

	if err := os.RemoveAll(n.cdi); err != nil {
		t.Fatal(err)
	}
	write(n, n.cdi) // a file in place of the directory
	if _, err := kubelet.AllocateIDs(n.ctx, gpu, "0"); err == nil || !strings.Contains(err.Error(), "device 0: write CDI file of "+cdiGPU+"gpu-0") {
		t.Errorf("error %v", err)
	}
}

// Containers of pods that run may be started anew while the plugin is not there.
func TestCDIFilesOutliveThePlugin(t *testing.T) {
	n := newNode(t)
	zero, one := gpuSpec("gpu-0", "/dev/gpu0"), gpuSpec("gpu-1", "/dev/gpu1")
	foreign := filepath.Join(n.cdi, "vendor.json")
	first := n.serve()
	first.Notify(gpus(map[string]*cdispec.Spec{"0": zero, "1": one}))
	write(n, foreign)
	first.stop()
	if err := os.Remove(foreign); err != nil {
		t.Fatalf("the foreign file: %v", err)
	}
	n.assertResolves("after the plugin ended", map[string]string{cdiGPU + "gpu-0": "/dev/gpu0", cdiGPU + "gpu-1": "/dev/gpu1"})

	n.serve().Notify(gpus(map[string]*cdispec.Spec{"0": zero}))
	n.assertResolves("after it came back with one device", map[string]string{cdiGPU + "gpu-0": "/dev/gpu0"})
}

// Two drivers with the same namespace serve different types.
func TestFilesOfAnotherDriverAreLeftAlone(t *testing.T) {
	n := newNode(t)
	n.writeCDI(NewManager(namespace, nil).cdiOwner(), "nic-0")
	listener, err := net.Listen("unix", filepath.Join(n.plugins, "example.com-nic.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	plugin := n.serve()
	plugin.Notify(gpus(map[string]*cdispec.Spec{"0": gpuSpec("gpu-0", "/dev/gpu0")}))
	plugin.Notify(NewDeviceTree())
	n.assertResolves("beside another process", map[string]string{cdiGPU + "nic-0": "/dev/nic-0"})
}

// A DRA driver has the same name, and files for claims.
func TestFilesOfClaimsAreLeftAlone(t *testing.T) {
	n := newNode(t)
	n.writeCDI(namespace, "claim-0")
	plugin := n.serve()
	plugin.Notify(tree("0"))
	plugin.Notify(NewDeviceTree())
	n.assertResolves("beside a DRA driver", map[string]string{cdiGPU + "claim-0": "/dev/claim-0"})
}

func (n *node) writeCDI(owner, device string) {
	n.Helper()
	files, err := draycdi.Open(n.cdi, owner)
	if err == nil {
		err = files.Write(device, gpuSpec(device, "/dev/"+device))
	}
	if err != nil {
		n.Fatal(err)
	}
}

// A file is there before kubelet may ask for its device.
func TestCDIFileIsThereBeforeKubeletLearnsOfIt(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	plugin := n.serve()
	plugin.Notify(tree())
	n.sees(kubelet, gpu)
	go plugin.Notify(gpus(map[string]*cdispec.Spec{"0": gpuSpec("gpu-0", "/dev/gpu0")}))
	n.sees(kubelet, gpu, "0")
	n.assertResolves("when kubelet sees the device", map[string]string{cdiGPU + "gpu-0": "/dev/gpu0"})
}

func TestUnchangedCDIFilesAreNotTouched(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	spec := gpuSpec("gpu-0", "/dev/gpu0")
	plugin.Notify(gpus(map[string]*cdispec.Spec{"0": spec}))
	path := filepath.Join(n.cdi, n.files(n.cdi)[0])
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	plugin.Notify(gpus(map[string]*cdispec.Spec{"0": spec, "1": gpuSpec("gpu-1", "/dev/gpu1")}))
	if file, err := os.Stat(path); err != nil || !file.ModTime().Equal(past) {
		t.Errorf("the file was written again (%v)", err)
	}
}

func TestSpecsAreCopied(t *testing.T) {
	spec := gpuSpec("gpu-0", "/dev/gpu0")
	info := withSpec(spec)
	spec.Devices[0].Name = "gpu-1"
	spec.Devices[0].ContainerEdits.DeviceNodes[0].Path = "/dev/gpu1"
	if !info.equal(withSpec(gpuSpec("gpu-0", "/dev/gpu0"))) {
		t.Errorf("the device changed with the caller's spec: %v", info.cdiSpec)
	}
	if withSpec(&cdispec.Spec{Kind: "a.b/c"}).cdiSpec != nil {
		t.Error("a spec without devices was kept")
	}
	several := gpuSpec("gpu-0", "/dev/gpu0")
	several.Devices = append(several.Devices, gpuSpec("gpu-1", "/dev/gpu1").Devices...)
	if got := draycdi.QualifiedNames(withSpec(several).cdiSpec); !slices.Equal(got, []string{cdiGPU + "gpu-0", cdiGPU + "gpu-1"}) {
		t.Errorf("devices of a spec with two: %v", got)
	}
}

// TestAllocateOfRemovedDevice: a device may be removed while kubelet allocates it.
func TestAllocateOfRemovedDevice(t *testing.T) {
	_, err := (&specs{}).ensure(t.Context(), gpuSpec("gpu-0", "/dev/gpu0"))
	if want := "CDI device " + cdiGPU + "gpu-0: its device was removed"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
