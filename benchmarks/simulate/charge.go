// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/charge"
	"github.com/dray-project/dray/pools"
)

// counted maps GPUs, and their memory, to quota resources.
var counted = []charge.Mapping{charge.ByClass("gpu"), {
	Resource: "gpu-memory", Classes: []string{"gpu"}, Sources: []charge.Source{{Driver: gpuDriver, Capacity: "memory"}},
}}

// charging asks how much quota a claim uses. The peer allocates the claim on each node of the empty
// cluster. That gives some amounts between the minimum and the maximum, but not necessarily these
// two.
func (b *bench) charging() []row {
	return []row{
		{name: fmt.Sprintf("what a claim for two GPUs counts, %d nodes", len(b.world.cluster.Nodes)), parts: float64(len(b.world.cluster.Nodes)), measure: func() figures {
			cluster := b.chargedCluster()
			return per(nil, func(int) {
				_, err := cluster.Of(b, b.charged(), counted)
				must(err)
			})
		}, peer: func(u *upstream) error {
			u.claims = nil
			_, err := u.place(b, b.world.shapes[6], u.nodes[:1])
			return err
		}},
	}
}

func (b *bench) chargedCluster() *charge.Cluster {
	features := b.world.options.Features
	return charge.NewCluster(features, pools.Build(features.PoolGates(), b.world.cluster.Slices), b.world.cluster.Nodes, allocator.ClassMap(b.world.cluster.Classes...))
}

// charged returns a claim for two GPUs.
func (b *bench) charged() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{Spec: b.world.cluster.Templates[6].Spec.Spec}
	claim.Namespace, claim.Name = "default", "charged"
	return claim
}

// agreeCharge compares on how many of the first nodes the claim can be allocated, and whether its
// devices have the computed amounts.
func (b *bench) agreeCharge() error {
	const nodes = 40
	part := *b.world
	part.cluster.Nodes = b.world.cluster.Nodes[:min(nodes, len(b.world.cluster.Nodes))]
	got, err := (&bench{Context: b.Context, world: &part}).chargedCluster().Of(b, b.charged(), counted)
	if err != nil {
		return err
	}
	fits := 0
	for _, node := range part.cluster.Nodes {
		u := newUpstream(b.world)
		u.claims = nil
		name, err := u.place(b, b.world.shapes[6], []*corev1.Node{node})
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		fits++
		taken, err := b.chargedCluster().Of(b, u.claims[0], counted)
		if err != nil {
			return err
		}
		for resource, bounds := range got.Of {
			if is := taken.Of[resource].Most; is.Cmp(bounds.Least) < 0 || is.Cmp(bounds.Most) > 0 {
				return fmt.Errorf("on node %s upstream takes %s of %s, which is not between %s and %s", name, is.String(), resource, bounds.Least.String(), bounds.Most.String())
			}
		}
	}
	if fits != got.Fits || fits == 0 {
		return fmt.Errorf("upstream allocates a claim on %d nodes, Dray on %d", fits, got.Fits)
	}
	return nil
}
