// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// Case is one allocation question: a cluster, the claims to allocate, in order,
// and the node to allocate them on. Everything in it is plain Kubernetes API
// objects, so that any allocator can be asked. An allocator must not modify them.
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

// Outcome is what an allocator answers to a Case. Exactly one of the following
// holds: Err is set (bad input, a failing selector); Results is non-nil, one entry
// per claim; or Results is nil: the claims cannot be allocated on the node.
type Outcome struct {
	Results []resourceapi.AllocationResult
	// Explanation is one line saying why there is no allocation. Optional.
	Explanation string
	Err         error
	// NodeOnly is set with Err when the error affects only this node
	// (upstream: ErrFailedAllocationOnNode).
	NodeOnly bool
	// Steps is how many steps a search took, in the allocator's own measure. Optional.
	Steps int64
}

// Allocator answers cases. It must be safe for concurrent use.
type Allocator func(ctx context.Context, c *Case) Outcome
