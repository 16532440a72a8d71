// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"github.com/dray-project/dray/alloctest"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// offer is a node that does not exist yet, of one of several instance types. A template for each
// type has the devices that the node would have.
type offer struct {
	types  []dynamicresources.InstanceTypeID
	slices map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice
}

// newOffer returns an offer whose instance types are the nodes of a cluster, with the slices of
// each node.
func newOffer(c *alloctest.Case) *offer {
	o := &offer{slices: make(map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice)}
	for _, node := range c.Nodes {
		o.types = append(o.types, handle(node.Name))
	}
	for _, slice := range published(c.Slices) {
		template := &cloudprovider.ResourceSliceTemplate{
			Driver: slice.Driver(), Pool: slice.Pool(), Devices: slice.Devices(), SharedCounters: slice.SharedCounters(),
		}
		id := handle(slice.NodeName())
		o.slices[id] = append(o.slices[id], dynamicresources.NewTemplateSlice(template))
	}
	return o
}

// ID implements dynamicresources.NodeClaim, as the following methods do.
func (o *offer) ID() dynamicresources.NodeClaimID { return handle("offer") }

// NodeName is empty: there is no node.
func (o *offer) NodeName() string { return "" }

// NodePoolID is needed only for attributes that are known at runtime.
func (o *offer) NodePoolID() dynamicresources.NodePoolID { return handle("default") }

// Requirements returns no requirements.
func (o *offer) Requirements() scheduling.Requirements { return scheduling.NewRequirements() }

// InstanceTypes returns all offered types.
func (o *offer) InstanceTypes() []dynamicresources.InstanceTypeID { return o.types }

// ResourceSlices returns the templates.
func (o *offer) ResourceSlices() map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice {
	return o.slices
}
