// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
)

// device has all that a container can be given.
func device(number string, spec *cdispec.Spec) DeviceInfo {
	return NewDeviceInfoWithTopologyHints(pluginapi.Healthy,
		[]pluginapi.DeviceSpec{
			{HostPath: "/dev/gpu" + number, ContainerPath: "/dev/gpu" + number, Permissions: "rw"},
			{HostPath: "/dev/gpuctl", ContainerPath: "/dev/gpuctl", Permissions: "r"},
		},
		[]pluginapi.Mount{{HostPath: "/opt/gpu", ContainerPath: "/gpu", ReadOnly: true}},
		map[string]string{"GPU_" + number: "yes", "LAST": number},
		map[string]string{"gpu/" + number: "yes"},
		&pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: 1}}}, spec)
}

func TestAllocateMergesDevices(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	devices := NewDeviceTree()
	devices.AddDevice("gpu", "0", device("0", gpuSpec("gpu-0", "/dev/gpu0")))
	devices.AddDevice("gpu", "1", device("1", gpuSpec("gpu-1", "/dev/gpu1")))
	devices.AddDevice("gpu", "2", device("2", nil))
	n.serve().Notify(devices)
	n.sees(kubelet, gpu, "0", "1", "2")
	if nodes := kubelet.Devices(gpu)["0"].GetTopology().GetNodes(); len(nodes) != 1 || nodes[0].GetID() != 1 {
		t.Errorf("topology %v", nodes)
	}

	got, err := kubelet.AllocateIDs(n.ctx, gpu, "1", "0", "2")
	if err != nil {
		t.Fatal(err)
	}
	var nodes, mounts, cdiDevices []string
	for _, node := range got.Response.GetDevices() {
		nodes = append(nodes, node.GetHostPath()+":"+node.GetContainerPath()+":"+node.GetPermissions())
	}
	for _, m := range got.Response.GetMounts() {
		mounts = append(mounts, m.GetHostPath()+":"+m.GetContainerPath())
		if !m.GetReadOnly() {
			t.Error("a mount that may be written to")
		}
	}
	for _, d := range got.Response.GetCdiDevices() {
		cdiDevices = append(cdiDevices, d.GetName())
	}
	for what, c := range map[string]struct{ got, want []string }{
		"nodes":       {nodes, []string{"/dev/gpu1:/dev/gpu1:rw", "/dev/gpuctl:/dev/gpuctl:r", "/dev/gpu0:/dev/gpu0:rw", "/dev/gpu2:/dev/gpu2:rw"}},
		"mounts":      {mounts, []string{"/opt/gpu:/gpu"}},
		"CDI devices": {cdiDevices, []string{"intel.cdi.k8s.io/gpu=gpu-1", "intel.cdi.k8s.io/gpu=gpu-0"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s %q, want %q", what, c.got, c.want)
		}
	}
	if want := map[string]string{"GPU_0": "yes", "GPU_1": "yes", "GPU_2": "yes", "LAST": "2"}; !maps.Equal(got.Response.GetEnvs(), want) {
		t.Errorf("environment %v, want %v", got.Response.GetEnvs(), want)
	}
	if want := map[string]string{"gpu/0": "yes", "gpu/1": "yes", "gpu/2": "yes"}; !maps.Equal(got.Response.GetAnnotations(), want) {
		t.Errorf("annotations %v, want %v", got.Response.GetAnnotations(), want)
	}
}

func TestAllocateRefuses(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	devices := tree("0")
	devices.AddDevice("gpu", "1", unhealthy())
	n.serve().Notify(devices)
	n.sees(kubelet, gpu, "0")
	for want, ids := range map[string][]string{
		"allocate example.com/gpu: device 7 does not exist": {"0", "7"},
		"allocate example.com/gpu: device 1 is not healthy": {"0", "1"},
	} {
		if _, err := kubelet.AllocateIDs(n.ctx, gpu, ids...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("allocate %v: %v, want %q", ids, err, want)
		}
	}
}

// capable implements all optional interfaces.
type capable struct {
	*driver
	mu         sync.Mutex
	allocate   error
	preStart   error
	preStarted []string
}

func (c *capable) Allocate(*pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allocate != nil {
		return nil, c.allocate
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{Envs: map[string]string{"BY": "the plugin"}}}}, nil
}

func (c *capable) PostAllocate(response *pluginapi.AllocateResponse) error {
	response.ContainerResponses[0].Annotations = map[string]string{"post": "yes"}
	return nil
}

func (c *capable) GetPreferredAllocation(request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	available := request.GetContainerRequests()[0].GetAvailableDeviceIDs()
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{
		{DeviceIDs: available[len(available)-1:]},
	}}, nil
}

func (c *capable) PreStartContainer(request *pluginapi.PreStartContainerRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.preStarted = request.GetDevicesIds()
	return c.preStart
}

func (c *capable) set(allocate, preStart error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocate, c.preStart = allocate, preStart
}

func TestOptionalInterfaces(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	plugin := &capable{driver: newDriver()}
	devices := NewDeviceTree()
	devices.AddDevice("gpu", "0", device("0", nil))
	devices.AddDevice("gpu", "1", device("1", nil))
	n.start(plugin.driver, plugin).Notify(devices)
	n.sees(kubelet, gpu, "0", "1")

	got, err := kubelet.Allocate(n.ctx, gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.IDs, []string{"1"}) {
		t.Errorf("devices %v are not the preferred ones", got.IDs)
	}
	if got.Response.GetEnvs()["BY"] != "the plugin" || got.Response.GetAnnotations() != nil {
		t.Errorf("%v is not what Allocate returned", got.Response)
	}
	if !slices.Equal(plugin.preStarted, []string{"1"}) {
		t.Errorf("PreStartContainer was called for %v", plugin.preStarted)
	}

	plugin.set(&UseDefaultMethodError{}, nil)
	if got, err = kubelet.AllocateIDs(n.ctx, gpu, "0"); err != nil {
		t.Fatal(err)
	}
	if got.Response.GetEnvs()["GPU_0"] != "yes" || !maps.Equal(got.Response.GetAnnotations(), map[string]string{"post": "yes"}) {
		t.Errorf("%v is not the default, changed by PostAllocate", got.Response)
	}

	for name, errs := range map[string][2]error{
		"allocate is off": {errors.New("allocate is off"), nil},
		"reset failed":    {nil, errors.New("reset failed")},
	} {
		plugin.set(errs[0], errs[1])
		if _, err := kubelet.AllocateIDs(n.ctx, gpu, "0"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

// Kubelet calls only what a plugin says that it has.
func TestRegistrationSaysWhatAPluginImplements(t *testing.T) {
	for _, c := range []struct {
		plugin Scanner
		want   *pluginapi.DevicePluginOptions
	}{
		{newDriver(), &pluginapi.DevicePluginOptions{}},
		{&capable{driver: newDriver()}, &pluginapi.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}},
	} {
		s := &service{server: &server{resource: gpu, hooks: hooksOf(c.plugin)}}
		if got := s.pluginOptions(); got.GetPreStartRequired() != c.want.GetPreStartRequired() ||
			got.GetGetPreferredAllocationAvailable() != c.want.GetGetPreferredAllocationAvailable() {
			t.Errorf("%T: options %v", c.plugin, got)
		}
		_, preferredErr := s.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: []string{"0"}}}})
		_, preStartErr := s.PreStartContainer(t.Context(), &pluginapi.PreStartContainerRequest{})
		if implements := c.want.GetPreStartRequired(); (preferredErr == nil) != implements || (preStartErr == nil) != implements {
			t.Errorf("%T: errors %v and %v", c.plugin, preferredErr, preStartErr)
		}
	}
}
