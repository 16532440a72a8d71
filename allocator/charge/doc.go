// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charge says what a claim counts against a quota, before it is allocated and after. Queues such as kueue and
// ResourceQuota count claims in different ways:
//
//	claim                        counted by
//	  ├── Quota ────────────►    its spec alone, the worst case: as ResourceQuota of Kubernetes
//	  ├── Cluster.Kueue ────►    count × the largest amount of a device that matches: as kueue
//	  └── Cluster.Of ───────►    what allocations of it take: least and most over all that the
//	                             allocator could return, exact once the claim is allocated
//
// A [Mapping] says what is counted, as in kueue's configuration: devices of some classes, or amounts of a
// counter or a capacity of these devices.
package charge
