// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue asks kueue, sigs.k8s.io/kueue v0.19.2, what Dray is asked: where a gang has a place within a
// topology (pkg/cache/scheduler), and what claims count against a quota (pkg/dra). It is a module of its own, so that
// nobody who uses Dray inherits kueue. README.md says what is compared, and how.
package kueue
