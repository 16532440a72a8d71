// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command simulate measures the questions that autoscalers ask, on a cluster of 1,000 nodes of which
// nine tenths of the devices are in use, beside Kubernetes' own allocator used the way
// cluster-autoscaler uses it. Answers are compared before anything is measured.
//
//	go run ./benchmarks/simulate
//
// The peer takes minutes for what it is asked in practice, so it gets a part of it; the table says
// which. Figures are CPU time. The peer is measured once, Dray until 200 ms are spent.
package main
