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
	// Core is a small set of requests and constraints that cannot hold together.
	// Without everything else of the claims they still cannot.
	Core []CoreItem `json:"core"`
	// NearestMiss is one sentence on what would have to change least. Empty if
	// nothing stands out.
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
	// Constraint is what is compared, such as "matchAttribute example.com/numa";
	// empty for a request.
	Constraint string `json:"constraint,omitempty"`
	// Attribute is the qualified name of what a constraint compares; empty for a request.
	Attribute string `json:"attribute,omitempty"`
	// Position is where the request or constraint stands in its list.
	Position int `json:"position"`
	// Capacity is set if the Constraint compares a capacity, whose name Attribute is.
	Capacity bool `json:"capacity,omitempty"`
	// Text is a phrase for people.
	Text string `json:"text"`
}

// RequestReport counts what became of the devices that a request could reach.
type RequestReport struct {
	Claim   string `json:"claim"`
	Request string `json:"request"`
	// Needed is the number of devices asked for, at least; with All, those that match.
	Needed int  `json:"needed"`
	All    bool `json:"all,omitempty"`
	// Totals are what the devices must have together, such as "40Gi of memory". Empty if any
	// will do.
	Totals string `json:"totals,omitempty"`
	// Reachable is the number of devices in usable pools that reach the node.
	Reachable int `json:"reachable"`
	// Candidates is how many of them are left after all Rejections, each by itself.
	Candidates int `json:"candidates"`
	// Rejections count each rejected device once, under the first reason.
	Rejections []Rejection `json:"rejections,omitempty"`
}

// Rejection is a reason for which devices cannot serve a request.
type Rejection struct {
	Reason Reason `json:"reason"`
	// Detail names the selector, taint, counter or capacity, for people.
	Detail string `json:"detail,omitempty"`
	// Selector is the one that the devices do not match. Nil if that is not the reason, and if
	// evaluating it failed.
	Selector *Selector `json:"selector,omitempty"`
	// Counter is the one of which there is too little. Nil if that is not the reason.
	Counter *Counter `json:"counter,omitempty"`
	// Devices is how many devices it concerns.
	Devices int `json:"devices"`
}

// OfClass reports whether the devices are not of the class that is asked for.
func (r *Rejection) OfClass() bool { return r.Selector != nil && r.Selector.Class != "" }

// Selector is one CEL selector of a class or a request.
type Selector struct {
	// Class is the name of the class; empty for a selector of the request.
	Class string `json:"class,omitempty"`
	// Position is where it stands in the list of the class or request, from 0.
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

// The kinds of Rejection, in the order in which they are looked for.
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
