// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package listers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/pools"
)

// DeviceID identifies a device in a cluster.
type DeviceID struct{ Driver, Pool, Device string }

// String returns "driver/pool/device".
func (d DeviceID) String() string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// PoolID identifies a pool in a cluster.
type PoolID struct{ Driver, Pool string }

// String returns "driver/pool".
func (p PoolID) String() string { return p.Driver + "/" + p.Pool }

// Pool is the part of a resource pool that a node can reach.
type Pool struct {
	PoolID
	// IsIncomplete is set if any slice of the pool's generation is missing, on whatever node it is. Nothing is
	// allocated from such a pool.
	IsIncomplete bool
	// Slices are those of the highest generation that reach the node, in the order in which their devices are
	// tried.
	Slices []*resourceapi.ResourceSlice
}

// GatherPools returns the pools with devices that the node can reach, in the order in which they are tried.
// Slices of older generations are ignored. The error names a slice whose node selector does not parse.
func GatherPools(_ context.Context, sliceLister resourcelisters.ResourceSliceLister, node *corev1.Node) ([]*Pool, error) {
	published, err := sliceLister.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list resource slices: %w", err)
	}
	view, err := pools.Build(allocator.AllFeatures().PoolGates(), published).GatherPools(node)
	if err != nil {
		return nil, err
	}
	var list []*Pool
	for seen := range view.Pools() {
		id := seen.Pool().ID()
		pool := &Pool{PoolID: PoolID{Driver: id.Driver, Pool: id.Name}, IsIncomplete: seen.Incomplete() != ""}
		for slice := range seen.Pool().Slices() {
			reaches, err := reaches(slice, node)
			if err != nil {
				return nil, fmt.Errorf("ResourceSlice %s: %w", slice.Name, err)
			}
			if reaches {
				pool.Slices = append(pool.Slices, slice)
			}
		}
		list = append(list, pool)
	}
	return list, nil
}

// reaches reports whether a slice reaches the node. With perDeviceNodeSelection, any of its devices must.
func reaches(slice *resourceapi.ResourceSlice, node *corev1.Node) (bool, error) {
	spec := &slice.Spec
	if !ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return matches(node, spec.NodeName, spec.AllNodes, spec.NodeSelector)
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		if match, err := matches(node, d.NodeName, d.AllNodes, d.NodeSelector); match || err != nil {
			return match, err
		}
	}
	return false, nil
}

func matches(node *corev1.Node, name *string, all *bool, selector *corev1.NodeSelector) (bool, error) {
	return structured.NodeMatches(features(), node, ptr.Deref(name, ""), ptr.Deref(all, false), selector)
}
