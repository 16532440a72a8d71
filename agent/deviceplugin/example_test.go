// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"fmt"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/deviceplugin"
)

// gpuPlugin finds GPUs and says so when one fails.
type gpuPlugin struct {
	changes <-chan map[string]bool // by ID: whether a GPU is healthy
}

func (p *gpuPlugin) Scan(notifier deviceplugin.Notifier) error {
	for gpus := range p.changes {
		tree := deviceplugin.NewDeviceTree()
		for id, healthy := range gpus {
			state := pluginapi.Healthy
			if !healthy {
				state = pluginapi.Unhealthy
			}
			nodes := []pluginapi.DeviceSpec{{HostPath: "/dev/" + id, ContainerPath: "/dev/" + id, Permissions: "rw"}}
			tree.AddDevice("gpu", id, deviceplugin.NewDeviceInfo(state, nodes, nil, nil, nil, nil))
		}
		notifier.Notify(tree)
	}
	return nil
}

// A driver's main function, as it is with Intel's package.
func Example() {
	manager := deviceplugin.NewManager("gpu.example.com", &gpuPlugin{changes: make(chan map[string]bool)})
	go manager.Run() // serves gpu.example.com/gpu for as long as the process lives
}

// A program that does more than serve one plugin ends it, and gets its error.
func ExampleManager_RunWithContext() {
	changes := make(chan map[string]bool)
	manager := deviceplugin.NewManager("gpu.example.com", &gpuPlugin{changes: changes})
	close(changes) // Scan returns
	fmt.Println(manager.RunWithContext(context.Background()))
	// Output: <nil>
}

func ExampleNewDeviceInfoWithTopologyHints() {
	spec := &cdispec.Spec{
		Kind: "gpu.example.com/gpu",
		Devices: []cdispec.Device{{
			Name:           "gpu-0",
			ContainerEdits: cdispec.ContainerEdits{DeviceNodes: []*cdispec.DeviceNode{{Path: "/dev/gpu0"}}},
		}},
	}
	near := &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: 1}}}
	tree := deviceplugin.NewDeviceTree()
	tree.AddDevice("gpu", "gpu-0", deviceplugin.NewDeviceInfoWithTopologyHints(pluginapi.Healthy, nil, nil, nil, nil, near, spec))
	fmt.Println(tree.DeviceTypeCount("gpu"))
	// Output: 1
}
