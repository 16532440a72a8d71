// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// The fleet: nodes gpu-01 to gpu-20.
const (
	nodes        = 20
	gpusPerNode  = 8
	firstMIG     = 16 // the first node whose GPUs can be partitioned
	h200Node     = 20 // the only one with H200s
	fleetSummary = `20 nodes are registered, with eight GPUs each: A100s on gpu-01 to gpu-15, A100s that
can be partitioned on gpu-16 to gpu-19, H200s on gpu-20.`
)

func registerFleet(ctx context.Context, client kubernetes.Interface) error {
	for i := 1; i <= nodes; i++ {
		node := fmt.Sprintf("gpu-%02d", i)
		if err := register(ctx, client, node, published(node, i)); err != nil {
			return fmt.Errorf("register node %s: %w", node, err)
		}
	}
	return nil
}

// published is what the driver on the node with a number publishes.
func published(node string, number int) []*resourceapi.ResourceSlice {
	switch {
	case number == h200Node:
		return []*resourceapi.ResourceSlice{inventory.Slice("gpu.example.com", node, inventory.GPUs(gpusPerNode, "h200", "141Gi")...)}
	case number >= firstMIG:
		return inventory.Partitionable("mig.example.com", node, gpusPerNode, "a100")
	}
	return []*resourceapi.ResourceSlice{inventory.Slice("gpu.example.com", node, inventory.GPUs(gpusPerNode, "a100", "80Gi")...)}
}

func register(ctx context.Context, client kubernetes.Interface, node string, slices []*resourceapi.ResourceSlice) error {
	if _, err := client.CoreV1().Nodes().Create(ctx, inventory.Node(node, 64), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, slice := range slices {
		if _, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
