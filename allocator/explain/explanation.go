// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says why claims cannot be allocated on a node: as data, as text, and summed up
// over many nodes.
package explain

import "github.com/dray-project/dray/pools"

// Explanation says why claims cannot be allocated on a node.
type Explanation struct {
	// Node is the name of the node.
	Node string `json:"node"`
	// Summary is one English sentence.
	Summary string `json:"summary"`
	// Core is a small set of requests and constraints that cannot be satisfied together. They stay
	// unsatisfiable if everything else is removed from the claims.
	Core []CoreItem `json:"core"`
	// NearestMiss is one sentence on the smallest change that would help. Empty if no change stands out.
	NearestMiss string `json:"nearestMiss,omitempty"`
	// Requests has one entry per request, or per subrequest of a prioritized list.
	Requests []RequestReport `json:"requests"`
	// Pools are those that reach the node but cannot be used.
	Pools []PoolReport `json:"pools,omitempty"`
}

// CoreItem is one request or constraint of a conflict core.
type CoreItem struct {
	// Claim is namespace/name. Empty for a constraint across claims.
	Claim string `json:"claim"`
	// Request is the name of the request; empty for a constraint.
	Request string `json:"request,omitempty"`
	// Constraint is the kind and name of what is compared, such as "matchAttribute example.com/numa"; empty for
	// a request.
	Constraint string `json:"constraint,omitempty"`
	// Attribute is the qualified name of the attribute or capacity that a constraint compares; empty for a
	// request.
	Attribute string `json:"attribute,omitempty"`
	// Position is the index of the request or constraint in its list.
	Position int `json:"position"`
	// Capacity is set if the Constraint compares a capacity. Attribute is then its name.
	Capacity bool `json:"capacity,omitempty"`
	// Text is a phrase for people.
	Text string `json:"text"`
}

// RequestReport counts the devices that a request could reach, by what rejected them.
type RequestReport struct {
	Claim   string `json:"claim"`
	Request string `json:"request"`
	// Needed is the minimum number of devices asked for; with All, the number of devices that match.
	Needed int  `json:"needed"`
	All    bool `json:"all,omitempty"`
	// Totals are what the devices must have together, such as "40Gi of memory". Empty if no totals are asked
	// for.
	Totals string `json:"totals,omitempty"`
	// Reachable is the number of devices in usable pools that reach the node.
	Reachable int `json:"reachable"`
	// Candidates is how many reachable devices are left after all Rejections. Requests and constraints are not
	// combined.
	Candidates int `json:"candidates"`
	// Rejections count each rejected device once, under the first reason that applies.
	Rejections []Rejection `json:"rejections,omitempty"`
}

// Rejection is a reason for which devices cannot serve a request.
type Rejection struct {
	Reason Reason `json:"reason"`
	// Detail names the selector, taint, counter or capacity, for people.
	Detail string `json:"detail,omitempty"`
	// Selector is the one that the devices do not match. Nil for other reasons, and if evaluating it failed.
	Selector *Selector `json:"selector,omitempty"`
	// Counter is the counter that has too little left. Nil for other reasons.
	Counter *Counter `json:"counter,omitempty"`
	// Devices is the number of devices rejected for this reason.
	Devices int `json:"devices"`
}

// OfClass reports whether the devices do not match a selector of the DeviceClass.
func (r *Rejection) OfClass() bool { return r.Selector != nil && r.Selector.Class != "" }

// Selector is one CEL selector of a class or a request.
type Selector struct {
	// Class is the name of the class; empty for a selector of the request.
	Class string `json:"class,omitempty"`
	// Position is its index in the list of the class or request, from 0.
	Position int `json:"position"`
	// Expression is its text.
	Expression string `json:"expression"`
}

// Counter is one counter of a counter set.
type Counter struct {
	Set  string `json:"set"`
	Name string `json:"name"`
}

// Reason is a kind of Rejection.
type Reason string

// The kinds of Rejection, in the order in which they are checked.
const (
	RejectedByBinding        Reason = "binding"
	RejectedBySelector       Reason = "selector"
	RejectedByUnknown        Reason = "unknown"
	RejectedByUse            Reason = "in-use"
	RejectedByCapacity       Reason = "capacity"
	RejectedByNodeOperations Reason = "node-operations"
	RejectedByGroup          Reason = "group"
	RejectedByCounter        Reason = "counter"
	RejectedByTaint          Reason = "taint"
)

// PoolReport is a pool that reaches the node but cannot be used.
type PoolReport struct {
	Pool       pools.PoolID `json:"pool"`
	Incomplete string       `json:"incomplete,omitempty"`
	Invalid    string       `json:"invalid,omitempty"`
}
