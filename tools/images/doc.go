// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images makes OCI images of the repository's programs and OCI artifacts of its charts, without a daemon and without a
// registry:
//
//	Program ─► go build for each platform ─► a layer, a configuration ─► index ─► OCI layout
//	Helm chart ─► version of the release ─► package ─► OCI layout
//
// An image has the program and the names of two users, and nothing else. It depends on the source,
// the version, the commit and its date, the Go toolchain and this package: who builds it again gets
// the same digest.
package images
