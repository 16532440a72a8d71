// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command simulate measures the questions of autoscalers, on a cluster of 1,000 nodes with nine
// tenths of the devices in use. The peer is Kubernetes' own allocator, used as by
// cluster-autoscaler. Results are compared before anything is measured.
//
//	go run ./benchmarks/simulate
//
// The peer needs minutes for realistic questions, so it gets only a part of each; the table says
// which. Figures are CPU time. The peer is measured once, and Dray until 200 ms are used.
package main
