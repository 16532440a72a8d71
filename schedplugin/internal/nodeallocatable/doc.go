// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeallocatable accounts for devices that stand for CPU, memory and the like of their node
// (feature DRANodeAllocatableResources).
//
// The scheduler reads what a pod's devices add to its requests from the private cycle state of the in-tree plugin. So
// an instance of that plugin does the accounting. It gets the pod's claims with their future allocations, so that it
// allocates nothing. Its cycle state is copied to the key that the scheduler reads.
//
//	PreFilter, Filter    Accounts.Check ─► in-tree PreFilter and Filter over a view of claims and slices
//	assume (scheduler)   state under the in-tree plugin's key
//	PreBind, Unreserve   Record, Clear: the status of the pod
package nodeallocatable
