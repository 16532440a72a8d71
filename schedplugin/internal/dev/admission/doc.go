// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission waits until the API server knows what pods need before they can be
// created. It looks these things up in caches, which lag behind what was just written.
package admission
