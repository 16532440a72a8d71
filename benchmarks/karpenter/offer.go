// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"github.com/dray-project/dray/alloctest"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// offer is a node that does not exist yet, of any of several instance types. Which
// devices it would have is known from a template for each type.
type offer struct {
	types  []dynamicresources.InstanceTypeID
	slices map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice
}

// newOffer takes each node of a cluster, with the slices that name it, as an instance
// type.
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

// ID implements dynamicresources.NodeClaim, as the other methods do.
func (o *offer) ID() dynamicresources.NodeClaimID { return handle("offer") }

// NodeName is empty: there is no node.
func (o *offer) NodeName() string { return "" }

// NodePoolID is of use only to attributes that are known at runtime.
func (o *offer) NodePoolID() dynamicresources.NodePoolID { return handle("default") }

// Requirements are none.
func (o *offer) Requirements() scheduling.Requirements { return scheduling.NewRequirements() }

// InstanceTypes are all that are on offer.
func (o *offer) InstanceTypes() []dynamicresources.InstanceTypeID { return o.types }

// ResourceSlices are the templates.
func (o *offer) ResourceSlices() map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice {
	return o.slices
}
