// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo is what the demonstrations of this module have in common: a command line, a
// real control plane with programs beside it, and acts that are shown one after the other.
package demo
