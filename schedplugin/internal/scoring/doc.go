// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scoring says what speaks for a node: what becomes of its devices, and how well it serves
// prioritized lists.
package scoring
