// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What apiVersion and kind of DrayArgs say, if they say anything.
const (
	ArgsAPIVersion = "config.dray/v1alpha1"
	ArgsKind       = "DrayArgs"
)

// DrayArgs are the arguments of the plugin, in pluginConfig of a scheduler configuration. Decode sets
// defaults for fields that are not set, or null.
type DrayArgs struct {
	metav1.TypeMeta `json:",inline"`
	// FilterBudget is the number of search steps for a pod on one node, after which the
	// node counts as unsuitable. Default: 200000.
	FilterBudget int64 `json:"filterBudget,omitempty"`
	// FilterTimeout is the time for a pod on one node, after which the node counts as
	// unsuitable; zero for no limit. Default: 10s. It needs the feature
	// DRASchedulerFilterTimeout.
	FilterTimeout *metav1.Duration `json:"filterTimeout,omitempty"`
	// BindingTimeout is how long devices with binding conditions may take to get ready,
	// at least 1s. Default: 10m. It needs the features DRADeviceBindingConditions and
	// DRAResourceClaimDeviceStatus.
	BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`
	// Policy says which of the devices of a node are chosen: FirstFit, LeastWaste, Pack or Spread of
	// package allocator. FirstFit, the default, takes those that kube-scheduler takes.
	Policy string `json:"policy,omitempty"`
	// Topology lists attributes of which the devices of a claim should have one value, the most
	// important first, as Options.Topology of package allocator. Default: none, as kube-scheduler.
	Topology []resourceapi.FullyQualifiedName `json:"topology,omitempty"`
	// Scoring says which nodes are preferred.
	Scoring ScoringArgs `json:"scoring,omitzero"`
	// Explain says how much is told about pods that do not get devices. Event, the default,
	// sums up all nodes in an Event of the pod. Reasons only gives the short reason for each
	// node that the scheduler adds up itself.
	Explain string `json:"explain,omitempty"`
	// Events limits how many Events are written about pods that do not get devices.
	Events EventLimits `json:"events,omitzero"`
	// SwitchesFile is the path of a file with Switches, which is read again every five seconds.
	// Default: none, everything is on.
	SwitchesFile string `json:"switchesFile,omitempty"`
}

// EventLimits are token buckets: one for the Events of a scheduler, and one for each pod. A suppressed Event
// is written after a later attempt.
type EventLimits struct {
	// QPS is how many Events the scheduler writes per second in the long run. Default: 5.
	QPS float64 `json:"qps,omitempty"`
	// Burst is how many it writes at once. Default: 100.
	Burst int32 `json:"burst,omitempty"`
	// PodPeriod is after how long one more Event about a pod may be written. Default: 5m.
	PodPeriod *metav1.Duration `json:"podPeriod,omitempty"`
	// PodBurst is how many Events about a pod are written at once. Default: 3.
	PodBurst int32 `json:"podBurst,omitempty"`
}

// ScoringArgs are weights, from 0 to 100. The score of a node is the weighted mean. A criterion with weight
// zero is not computed.
type ScoringArgs struct {
	// PrioritizedLists prefers nodes that serve prioritized lists with earlier alternatives.
	// Default: 1. It needs the feature DRAPrioritizedList.
	PrioritizedLists int64 `json:"prioritizedLists,omitempty"`
	// Packing prefers nodes of whose devices most are in use. Default: 0.
	Packing int64 `json:"packing,omitempty"`
	// Spreading prefers nodes of whose devices least are in use. Default: 0. It excludes
	// Packing.
	Spreading int64 `json:"spreading,omitempty"`
	// LeastWaste prefers nodes on which few free devices can no longer be allocated afterwards, such as
	// partitions whose counters the pod's devices consume. Default: 0.
	LeastWaste int64 `json:"leastWaste,omitempty"`
}

// OnlyLists reports whether only prioritized lists count, as in kube-scheduler.
func (s ScoringArgs) OnlyLists() bool { return s.Packing+s.Spreading+s.LeastWaste == 0 }

// Sum is what the weights are together.
func (s ScoringArgs) Sum() int64 {
	return s.PrioritizedLists + s.Packing + s.Spreading + s.LeastWaste
}

// Values of DrayArgs.Explain.
const (
	ExplainEvent   = "Event"
	ExplainReasons = "Reasons"
)
