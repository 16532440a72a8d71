// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests package resourceslice on a real API server, with errors that a proxy injects,
// and with errors of the API server itself.
//
// The binaries of the control plane are expected where `make controlplane` puts them.
package e2e
