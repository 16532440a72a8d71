// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build pruned

// Package pruned requires what no other package imports.
package pruned

// Modules that k8s.io/kubernetes requires at v0.0.0 and that nothing here needs: without
// a requirement of our own, which "go mod tidy" keeps only for what is imported,
// "go list -m all" fails.
import (
	_ "k8s.io/cri-streaming/pkg/streaming"
	_ "k8s.io/sample-apiserver/pkg/apis/wardle"
)
