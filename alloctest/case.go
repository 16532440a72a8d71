// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// Case is one question: a cluster, the claims to allocate, in order, and a node. All objects are those of the
// Kubernetes API, so that any allocator can be asked. An allocator must not modify them.
type Case struct {
	Name      string
	Features  allocator.Features
	Nodes     []*corev1.Node
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Allocated []*resourceapi.ResourceClaim // claims with status.allocation: what is in use
	Claims    []*resourceapi.ResourceClaim // claims to allocate together
	Node      string                       // name of the node asked about, one of Nodes
}

// Outcome is the answer of an allocator to a Case. There are three kinds: Err is set (bad input, a failing
// selector). Results is non-nil, with one entry per claim. Or both are nil: the claims cannot be allocated on
// the node.
type Outcome struct {
	Results []resourceapi.AllocationResult
	// Explanation is one line that says why there is no allocation. Optional.
	Explanation string
	Err         error
	// NodeOnly is set with Err when the error affects only this node
	// (upstream: ErrFailedAllocationOnNode).
	NodeOnly bool
	// Steps is the length of the search, in a unit of the allocator. Optional.
	Steps int64
}

// Allocator answers cases. It must be safe for concurrent use.
type Allocator func(ctx context.Context, c *Case) Outcome
