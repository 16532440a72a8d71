package allocator

import (
	"github.com/dray-project/dray/pools"
)

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
	// Claim is namespace/name.
	Claim string `json:"claim"`
	// Request is the name of the request; empty for a constraint.
	Request string `json:"request,omitempty"`
	// Constraint is what is compared, such as "matchAttribute example.com/numa";
	// empty for a request.
	Constraint string `json:"constraint,omitempty"`
	// Position is where the request or constraint stands in its list.
	Position int `json:"position"`
	// Text is a phrase for people.
	Text string `json:"text"`
}

// RequestReport counts what became of the devices that a request could reach.
type RequestReport struct {
	Claim   string `json:"claim"`
	Request string `json:"request"`
	// Needed is the number of devices asked for; with All, those that match.
	Needed int  `json:"needed"`
	All    bool `json:"all,omitempty"`
	// Reachable is the number of devices in usable pools that reach the node.
	Reachable int `json:"reachable"`
	// Candidates is how many of them are left after all Rejections, each by itself.
	Candidates int `json:"candidates"`
	// Rejections count each rejected device once, under the first reason.
	Rejections []Rejection `json:"rejections,omitempty"`
}

// Rejection is a reason for which devices cannot serve a request.
type Rejection struct {
	Reason RejectionReason `json:"reason"`
	// Detail names the selector, taint, counter or capacity.
	Detail string `json:"detail,omitempty"`
	// Devices is how many devices it concerns.
	Devices int `json:"devices"`
}

// RejectionReason is a kind of Rejection.
type RejectionReason string

// The kinds of Rejection, in the order in which they are looked for.
const (
	RejectedByBinding        RejectionReason = "binding"
	RejectedBySelector       RejectionReason = "selector"
	RejectedByNode           RejectionReason = "node"
	RejectedByUse            RejectionReason = "in-use"
	RejectedByCapacity       RejectionReason = "capacity"
	RejectedByNodeOperations RejectionReason = "node-operations"
	RejectedByGroup          RejectionReason = "group"
	RejectedByCounter        RejectionReason = "counter"
	RejectedByTaint          RejectionReason = "taint"
)

// PoolReport is a pool that reaches the node but cannot be used.
type PoolReport struct {
	Pool       pools.PoolID `json:"pool"`
	Incomplete string       `json:"incomplete,omitempty"`
	Invalid    string       `json:"invalid,omitempty"`
}
