// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs virtual nodes against a real control plane, with pods that have
// ResourceClaims, drivers and providers that misbehave, requests that fail, and programs that are
// killed. `make test-agent` runs it. ROUNDS is how often the kill loop kills.
//
// Each spec has a namespace, a node, and a driver whose devices are on that node only.
package e2e
