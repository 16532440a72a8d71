// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package karpenter asks Karpenter's allocator, sigs.k8s.io/karpenter v1.14.1,
// pkg/scheduling/dynamicresources, the questions that Dray is measured with. It is a
// module of its own, so that nobody who uses Dray inherits Karpenter. README.md says
// what is compared, and how.
package karpenter
