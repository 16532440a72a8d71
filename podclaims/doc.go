// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podclaims tells which ResourceClaims a pod uses (KEP-4381, KEP-5004, KEP-5194). It names some itself;
// others are made from templates for it or for its PodGroup. One more is made by the scheduler for extended
// resources that devices provide.
//
//   - [Resolver] (resolver.go, group.go) finds claims, or says that one has to be made and how.
//   - [Generate] and [GeneratedName] (generate.go) make a claim the way the controller does.
//   - [ExtendedRequests] and [Classes] (extended.go) are for extended resources.
//   - [ApplyTaintRules] (taintrule.go) adds the taints of DeviceTaintRules to slices.
//
// Objects are kept by pointer and not modified.
package podclaims
