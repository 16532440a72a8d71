// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package benchmarks puts Dray and its peers to the same questions: Kubernetes' own
// allocator here, in one process, and Karpenter's in a module below.
//
//	make bench                       everything, with tables and plots, into results
//	go test -run '^$' -bench Cliff   one kind of benchmark
//	go test -run TestBudgets         the work for each, counted
//
// Names are for benchstat: they carry impl=, sizes and state. All implementations are
// compared with each other, and results are verified, before any is measured.
//
// # Where things are
//
//	workload, pod            a cluster and who asks; what is known when they ask
//	fleet, requests,         workloads
//	network, spread, pairs,
//	partitions, shares
//	cliff*                   small inputs that are hard
//	cluster                  words to build clusters with
//	implementation_test      who answers
//	agree_test               comparing and verifying answers
//	meter_test               CPU time
//	*_test, with Benchmark   what is measured
//	budget_test              what may be spent
//	report                   the program that writes tables and plots
package benchmarks
