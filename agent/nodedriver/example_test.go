// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/nodedriver"
)

// twoGPUs is a source. A real one looks for devices, and reports all of them whenever something changes.
type twoGPUs struct{}

func (twoGPUs) Run(ctx context.Context, report func(*inventory.Inventory)) error {
	in := &inventory.Inventory{}
	for _, name := range []string{"gpu-0", "gpu-1"} {
		in.Devices = append(in.Devices, inventory.Device{
			ID: inventory.ID{Driver: "gpu.example.com", Pool: "node-1", Device: name}, Type: "gpu",
		})
	}
	report(in)
	<-ctx.Done()
	return nil
}

// Example is a whole driver: it publishes its devices, and serves them to kubelet's two interfaces. Here, the API
// server is a fake, and there is no kubelet.
func Example() {
	folder, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	client := fakecluster.NewClient()
	node, err := nodedriver.New(nodedriver.Options{
		NodeName: "node-1", Client: client, Source: twoGPUs{},
		KubeletDir: folder, CDIDir: folder, // on a node, the defaults are right
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()
	for node.Stats()["gpu.example.com"].NumCreates == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(node.Ready())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// kubelet did not register driver gpu.example.com yet
	// <nil>
}
