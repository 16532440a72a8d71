// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeallocatable accounts for devices that stand for CPU, memory and the like of their node
// (feature DRANodeAllocatableResources).
//
// The scheduler takes what a pod's devices add to its requests from the private state of the in-tree plugin. So an
// instance of that plugin does the accounting. Its claims are those of the pod as they will be, allocated already:
// it has nothing to allocate, and its state under the key that the scheduler reads is right.
//
//	PreFilter, Filter    Accounts.Check ─► in-tree PreFilter and Filter over a view of claims and slices
//	assume (scheduler)   state under the in-tree plugin's key
//	PreBind, Unreserve   Record, Clear: the status of the pod
package nodeallocatable
