// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"runtime"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
)

// What is in use after a tenth of the updates is in use at their end, whether
// kubelet is there or not.
func TestMemoryIsFlat(t *testing.T) {
	for name, updates := range map[string]int{"with a stream": 100_000, "without a stream": 20_000} {
		t.Run(name, func(t *testing.T) {
			withKubelet := name == "with a stream"
			n := newNode(t)
			var kubelet *fakekubelet.Kubelet
			if withKubelet {
				kubelet = n.kubelet(fakekubelet.Options{})
			}
			plugin := n.serve()
			report := func(updates int) memory {
				for i := range updates {
					plugin.Notify(soakTree(i))
				}
				if withKubelet {
					n.sees(kubelet, gpu, healthyAfter(updates-1)...)
				}
				return inUse()
			}
			early := report(updates / 10)
			late := report(updates - updates/10)
			t.Logf("after %d updates %s, after %d %s", updates/10, early, updates, late)
			if late.heap > early.heap+early.heap/2 || late.goroutines > early.goroutines+5 {
				t.Errorf("what is in use grows: %s, then %s", early, late)
			}
		})
	}
}

type memory struct {
	heap       uint64
	goroutines int
}

func (m memory) String() string {
	return fmt.Sprintf("%d KiB, %d goroutines", m.heap/1024, m.goroutines)
}

func inUse() memory {
	runtime.GC()
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return memory{heap: statistics.HeapAlloc, goroutines: runtime.NumGoroutine()}
}

const soakDevices = 8

// soakTree has devices of which one is unhealthy, another one in each tree. A
// hundredth of the trees changes the edits of a CDI device.
func soakTree(i int) DeviceTree {
	tree := NewDeviceTree()
	for j := range soakDevices {
		state := pluginapi.Healthy
		if j == i%soakDevices {
			state = pluginapi.Unhealthy
		}
		var spec *cdispec.Spec
		if j == 0 {
			spec = gpuSpec("gpu-0", fmt.Sprintf("/dev/gpu0-%d", i/100))
		}
		tree.AddDevice("gpu", fmt.Sprint(j), NewDeviceInfoWithTopologyHints(state, nil, nil, nil, nil, nil, spec))
	}
	return tree
}

func healthyAfter(i int) []string {
	var ids []string
	for j := range soakDevices {
		if j != i%soakDevices {
			ids = append(ids, fmt.Sprint(j))
		}
	}
	return ids
}

func gpuSpec(name, path string) *cdispec.Spec {
	return &cdispec.Spec{
		Kind: CDIVendor + "/gpu",
		Devices: []cdispec.Device{{
			Name:           name,
			ContainerEdits: cdispec.ContainerEdits{DeviceNodes: []*cdispec.DeviceNode{{Path: path}}},
		}},
	}
}
