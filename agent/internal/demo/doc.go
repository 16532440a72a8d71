// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo has what the demos of this module share: a command line, a real control plane with
// other programs, and steps (acts) that are played in order.
package demo
