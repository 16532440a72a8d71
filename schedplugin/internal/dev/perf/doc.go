// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perf measures how many pods with claims a kube-scheduler places per second, with
// three plugins that allocate devices: the one in the tree, Dray, and Floor, which makes the
// necessary writes and nothing else. It runs the benchmark scheduler_perf of Kubernetes, which
// has an API server, controllers and a scheduler in one process, and an etcd.
//
//	config/workloads.yaml   what is measured, in the format of scheduler_perf
//	floor, shelf, grant     the plugin Floor
//	contestant, workload    who runs what
//	report                  the command that turns the results into a page
//
// The tests of this package are the benchmarks: one for throughput, one for the Filter phase
// alone, without API server. `make bench-scheduler` runs both.
package perf
