// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow compares what Dray would decide with what another scheduler does. It binds nothing and
// writes nothing: its client refuses all requests but reads.
//
//	pod gets its devices ──► cluster without them ──► Dray: PreFilter, Filter, Reserve ──► same devices?
//	pod is unschedulable ──► a scheduler with Dray ──► no node, too?
//	                                                        └──► Report: log, metric, summary
//
// The devices of a pod are compared on the node that it was given: with its own claims as they were
// before, and all others as they are at that moment. Claims are looked at in the order in which the API
// server stored them. What a scheduler decides it stores a moment later, so that it may have known
// what is not stored yet, or not known what is. If one of the devices that Dray would have taken changes
// hands at about the same time, that is counted by itself: it says nothing about Dray.
//
// # Where to look
//
//	command.go   the subcommand of dray-scheduler
//	shadow.go    Shadow: which pods are compared, and when
//	judge.go     what Dray would decide about a pod on a node
//	cluster.go   claims without the allocation of one pod
//	report.go    Outcome, Report
//	readonly.go  the client that writes nothing
package shadow
