// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package karpenter runs the benchmarks of Dray with Karpenter's allocator, sigs.k8s.io/karpenter
// v1.15.0, pkg/scheduling/dynamicresources. It is a module of its own, so that users of Dray do not
// depend on Karpenter. README.md says what is compared, and how.
package karpenter
