// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory makes nodes and the ResourceSlices that a driver on them would
// publish: whole GPUs, GPUs that can be partitioned, devices whose capacity is shared. It
// makes pods to go there, too.
//
// Every slice belongs to a pool named after its node, generation 1. What is returned is
// new, and the caller's to change.
package inventory
