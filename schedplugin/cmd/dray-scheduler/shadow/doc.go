// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow compares Dray's decisions with those of another scheduler. It binds and writes nothing: its
// client refuses all requests but reads.
//
//	pod gets its devices ──► cluster without them ──► Dray: PreFilter, Filter, Reserve ──► same devices?
//	pod is unschedulable ──► a scheduler with Dray ──► no node, too?
//	                                                        └──► Report: log, metric, summary
//
// The devices of a pod are compared on the node that the pod was given. Its own claims are then as they were
// before they were allocated, and all others as they are at that time. Claims are read in the order in which
// the API server stored them. A scheduler stores a decision some time after making it. So it may have known
// what was not stored yet, or not known what was. If a device that Dray would have taken is allocated or
// released at about the same time, the pod is counted separately: it says nothing about Dray.
//
// # Where to look
//
//	command.go   the subcommand of dray-scheduler
//	shadow.go    Shadow: which pods are compared, and when
//	judge.go     Dray's decision about a pod on a node
//	cluster.go   the claims, without the allocation of one pod
//	report.go    Outcome, Report
//	readonly.go  the client that only reads
package shadow
