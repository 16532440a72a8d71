// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// Problem says which requests want how many of which devices, and what devices that are
// chosen together have to respect. Devices, resources, relations, domains and requests are
// known by their positions. A Problem is not modified by solving it, and may be solved by
// several goroutines at the same time.
type Problem struct {
	// Devices are in the order in which they are tried.
	Devices []Device
	// Restores is set if Restores(Devices): it is the same for all problems about them.
	Restores bool
	// Paid are devices that were shared before: shareable ones take no draws then. Nil if there
	// are none.
	Paid *bitset.BitSet
	// Left is what is left of each resource. It may be negative.
	Left []amount.Amount
	// PoolOf is the pool of each resource that devices draw on, -1 for what shares take.
	PoolOf []int32
	// KindOf numbers what resources are of: those of one kind can stand in for each other
	// where different devices take of them.
	KindOf    []int32
	Relations []Relation
	Domains   []Domain
	// Requests are in the order in which they are decided. Those of a claim follow each
	// other.
	Requests []Request
	// Claims is how many claims there are, MostOfClaim how many devices each may have.
	Claims, MostOfClaim int
}

// Device is what choosing a device means whoever chooses it.
type Device struct {
	// Draws are what it takes of resources, at most one for each. A shareable device takes
	// them with its first share.
	Draws []Draw
	// Groups are relations in which the device takes part when it takes its draws
	// (compatibility groups).
	Groups []Group
	// Pool is the pool that the device draws on, -1 if it draws on none. While any resource
	// of a pool is overdrawn, none of the devices that draw on it can be chosen (KEP-4815).
	Pool int32
	// Shareable devices can be chosen several times, by different requests.
	Shareable bool
}

// Restores reports whether some device takes less than nothing of a resource.
func Restores(devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool {
		return slices.ContainsFunc(d.Draws, func(draw Draw) bool { return draw.Amount.Sign() < 0 })
	})
}

// Draw is an amount taken of a resource.
type Draw struct {
	Resource int32
	Amount   amount.Amount
}

// Group is a device's part in a relation.
type Group struct {
	Relation int32
	Values   []int32
}

// Relation is about the values of several devices. Values count from 0 in each relation. With
// Match, the devices may be of several claims, with the other kinds they are of one.
type Relation struct {
	Kind RelationKind
	// Most is how many different values there may be, with AtMost.
	Most int
	// Begun is set if devices take part already. Then Left are, for Match, the values that
	// those have in common. It does not go with other kinds.
	Begun bool
	Left  []int32
	// Off takes the relation out of the problem.
	Off bool
}

// Domain is what options with equal demands see of the devices.
type Domain struct {
	// Claim is the position of the claim of all options with this domain. Options of
	// different claims may share a domain that is not Admin.
	Claim int32
	// Admin devices may be chosen by other claims, too, if those choose before (KEP-5018).
	Admin bool
	// Allowed are the candidates.
	Allowed *bitset.BitSet
	// Stops are devices at which looking ends the search. They are not in Allowed. Nil if
	// there are none.
	Stops *bitset.BitSet
	// Order has all of Allowed and Stops in the order in which they are tried. Nil is ascending.
	Order []int32
	// Shares is what a share of each device takes; it may be shorter than the list of
	// devices.
	Shares [][]Draw
	// Covers are the relations that the options are part of.
	Covers []Cover
	// Gives is what each device gives of each total that the options have, none of it
	// negative. Nil if they have none.
	Gives [][]amount.Amount
	// Fills are for shareable devices that give as much as is missing, by total. Gives is then the most that
	// each can give. Nil if there are none.
	Fills [][]Fill
}

// share is what a share of a device takes.
func (d *Domain) share(i int32) []Draw {
	if int(i) >= len(d.Shares) {
		return nil
	}
	return d.Shares[i]
}

// covers returns the part of a domain in a relation, nil if it has none.
func (d *Domain) covers(relation int32) *Cover {
	for k := range d.Covers {
		if d.Covers[k].Relation == relation {
			return &d.Covers[k]
		}
	}
	return nil
}

// Cover is the part of a domain in a relation.
type Cover struct {
	Relation int32
	*Column
	// Stops are devices of which looking at the values ends the search. Nil if there are
	// none.
	Stops *bitset.BitSet
}

// Request wants the devices of one of its options.
type Request struct {
	Claim   int32
	Options []Option
	// Off takes the request out of the problem.
	Off bool
}

// Option is one way to serve a request. Earlier options are preferred.
type Option struct {
	Domain int32
	// Count is how many devices it takes.
	Count int
	// All lists the devices of an option that must have exactly these, in order; it has
	// Count elements. A relation that does not admit one of them ends the search.
	All bool
	// Totals are what the devices must give together, one for each of Domain.Gives. An option
	// with totals has a Count that is not zero, and not All.
	Totals []amount.Amount
	// Mandatory are these devices, with all that are allowed, unless they are too many for a claim. Those that are
	// not allowed make the option impossible.
	Mandatory []int32
	// Late are mandatory devices that are not allowed, of which relations are asked before
	// that is found out. Nil if there are none.
	Late *bitset.BitSet
}

// Choice is a device for a request.
type Choice struct {
	Request, Option, Device int32
}

// End is how solving ended.
type End uint8

const (
	// None says that there is no solution.
	None End = iota
	// Found says that Choices are the first solution in the order of requests, options and devices.
	Found
	// Stopped says that a device at which looking ends the search comes before the first solution.
	Stopped
	// Spent says that the budget was spent.
	Spent
	// Cancelled says that the context was cancelled.
	Cancelled
)

// Stop is where a search was ended.
type Stop struct {
	Request, Option, Device int32
	// Cover is the position of the relation in Domain.Covers that was asked about the
	// device, -1 if the device itself ended the search. Violated is set if that relation
	// does not admit a mandatory device.
	Cover    int
	Violated bool
}

// Stats counts work.
type Stats struct {
	// Steps are candidates tried, requests entered, devices that were looked for with
	// effort, and, at a lower rate, devices checked ahead.
	Steps int64
	// Decisions are devices chosen, Backtracks those given up again, Checks looks at devices.
	Decisions, Backtracks, Checks int64
}

// Add adds the work of another search.
func (s *Stats) Add(other Stats) {
	s.Steps += other.Steps
	s.Decisions += other.Decisions
	s.Backtracks += other.Backtracks
	s.Checks += other.Checks
}

// Rules are what may be left out of the search without changing its result.
type Rules uint32

const (
	// RuleAhead looks ahead at all, after the first dead end.
	RuleAhead Rules = 1 << iota
	// RuleRoot looks for requests with too few candidates at the root, by themselves or together.
	RuleRoot
	// RulePairs has the first attempt look for devices that the next request can match.
	RulePairs
	// RuleFlow matches requests with devices.
	RuleFlow
	// RuleCumulative sums up what requests take of all resources of a kind.
	RuleCumulative
	// RuleDistinct bounds the devices in a matching by the values that differ.
	RuleDistinct
	// RuleSupport looks for a value with which all that must match can be served.
	RuleSupport
	// RuleRootSupport takes candidates without such a value out at the root.
	RuleRootSupport
	// RuleCardinality looks for values for all relations that compare the same.
	RuleCardinality
	// RuleSums looks for openings that cannot have their totals.
	RuleSums
	// RuleSymmetry skips candidates that are interchangeable with one that failed.
	RuleSymmetry
	// RuleNogoods remembers states below which there is no solution.
	RuleNogoods
	// RuleEqual gives an equal later request, or claim, no earlier choice.
	RuleEqual
	// RulePacking sums up what requests can take of each resource of a kind by itself.
	RulePacking
	// RuleServing sums up what devices of the same resources can serve together.
	RuleServing
	// RuleCompletion looks for what completes the choices made so far in another order.
	RuleCompletion

	// AllRules is what Solve uses.
	AllRules = 1<<iota - 1
)
