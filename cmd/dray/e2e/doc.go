// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the command line on a real control plane: objects that controllers make, rights that an API server
// grants, and what a user is told.
//
// The binaries of the control plane are expected where `make controlplane` puts them.
package e2e
