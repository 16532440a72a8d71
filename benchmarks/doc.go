// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package benchmarks compares Dray with its peers on the same inputs: with Kubernetes' own
// allocator in this package, and with Karpenter's in a module below.
//
//	make bench                       everything, with tables and plots, into results
//	go test -run '^$' -bench Cliff   one kind of benchmark
//	go test -run TestBudgets         the work for each, counted
//
// Names are for benchstat: they contain impl=, sizes and state. Before the measurement, results of
// all implementations are compared and verified.
//
// # Where things are
//
//	workload, pod            a cluster and who asks; what is known when they ask
//	fleet, requests,         workloads
//	network, spread, pairs,
//	partitions, shares
//	cliff*                   small inputs that are hard
//	cluster                  helpers to build clusters
//	implementation_test      the implementations
//	agree_test               comparing and verifying results
//	meter_test               CPU time
//	*_test, with Benchmark   what is measured
//	budget_test              limits for each workload
//	report                   the program that writes tables and plots
package benchmarks
