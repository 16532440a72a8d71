// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// Problem says which requests want how many of which devices, and which constraints the chosen devices must
// satisfy. Devices, resources, relations, domains and requests are identified by position. Solving does not
// modify a Problem, and several goroutines may solve it at the same time.
type Problem struct {
	// Devices are in the order in which they are tried.
	Devices []Device
	// Restores caches Restores(Devices), which is the same for all problems about these devices.
	Restores bool
	// Paid are shareable devices with a share in use before the search: their draws are already taken. Nil if
	// there are none.
	Paid *bitset.BitSet
	// Left is what is left of each resource. It may be negative.
	Left []amount.Amount
	// PoolOf is the pool of each resource that devices draw on, -1 for the resources of shares.
	PoolOf []int32
	// KindOf is the kind of each resource. Resources of one kind can replace each other if different devices
	// take of them.
	KindOf    []int32
	Relations []Relation
	Domains   []Domain
	// Requests are in the order in which they are decided. Requests of a claim are adjacent.
	Requests []Request
	// Claims is the number of claims. MostOfClaim is how many devices each may have.
	Claims, MostOfClaim int
}

// Device says what choosing the device takes. It is the same for all requests.
type Device struct {
	// Draws are the amounts that it takes of resources, at most one for each resource. A shareable device takes
	// them with its first share.
	Draws []Draw
	// Groups are the relations that the device joins when it takes its draws (compatibility groups).
	Groups []Group
	// Pool is the pool that the device draws on, -1 if it draws on none. While any resource
	// of a pool is overdrawn, none of the devices that draw on it can be chosen (KEP-4815).
	Pool int32
	// Shareable devices can be chosen several times, by different requests.
	Shareable bool
}

// Restores reports whether some device has a negative draw.
func Restores(devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool {
		return slices.ContainsFunc(d.Draws, func(draw Draw) bool { return draw.Amount.Sign() < 0 })
	})
}

// Draw is an amount that is taken of a resource.
type Draw struct {
	Resource int32
	Amount   amount.Amount
}

// Group is the membership of a device in a relation.
type Group struct {
	Relation int32
	Values   []int32
}

// Relation is a constraint on the values of the chosen devices. Values count from 0 in each relation. The
// devices of a Match may be of several claims, those of other kinds are of one.
type Relation struct {
	Kind RelationKind
	// Most is the limit of an AtMost relation.
	Most int
	// Begun is set for a Match if devices take part before the search. Left are then the values that those have
	// in common.
	Begun bool
	Left  []int32
	// Off removes the relation from the problem.
	Off bool
}

// Domain is the set of devices for options with equal demands.
type Domain struct {
	// Claim is the position of the claim of its options. Options of different claims may share a domain that is
	// not Admin.
	Claim int32
	// Admin domains give admin access: a claim may choose a device that an earlier claim has (KEP-5018).
	Admin bool
	// Allowed are the candidates.
	Allowed *bitset.BitSet
	// Stops are devices at which looking ends the search. They are not in Allowed. Nil if
	// there are none.
	Stops *bitset.BitSet
	// Order lists all of Allowed and Stops in the order in which they are tried. Nil is ascending order.
	Order []int32
	// Shares are the draws of a share, by device. The list may be shorter than that of devices.
	Shares [][]Draw
	// Covers are the relations that cover the options.
	Covers []Cover
	// Gives are what each device contributes, by total and device. No amount is negative. Nil if the options
	// have no totals.
	Gives [][]amount.Amount
	// Fills are for shareable devices that contribute as much as is missing, by total and device. Gives is then
	// the maximum. Nil if there are none.
	Fills [][]Fill
}

// share returns the draws of a share of a device.
func (d *Domain) share(i int32) []Draw {
	if int(i) >= len(d.Shares) {
		return nil
	}
	return d.Shares[i]
}

// covers returns the Cover of a relation, nil if it does not cover the domain.
func (d *Domain) covers(relation int32) *Cover {
	for k := range d.Covers {
		if d.Covers[k].Relation == relation {
			return &d.Covers[k]
		}
	}
	return nil
}

// Cover says that a relation covers a domain, and which values it compares.
type Cover struct {
	Relation int32
	*Column
	// Stops are devices whose values cannot be looked at: that ends the search. Nil if there are none.
	Stops *bitset.BitSet
}

// Request asks for the devices of one of its options.
type Request struct {
	Claim   int32
	Options []Option
	// Off removes the request from the problem.
	Off bool
}

// Option is one way to serve a request. Earlier options are preferred.
type Option struct {
	Domain int32
	// Count is the number of devices.
	Count int
	// All is set if the option must have exactly the Mandatory devices, which are Count in number. A relation
	// that does not admit one of them ends the search.
	All bool
	// Totals are what the devices must contribute together, one for each of Domain.Gives. An option with totals
	// has a Count above zero, and not All.
	Totals []amount.Amount
	// Mandatory are the devices of an option with All, unless they are too many for a claim. A device that is
	// not allowed makes the option impossible.
	Mandatory []int32
	// Late are mandatory devices that are not allowed, but are refused only after the relations have been
	// asked. Nil if there are none.
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

// Stop is where the search was ended by looking at a device.
type Stop struct {
	Request, Option, Device int32
	// Cover is the position in Domain.Covers of the relation that was asked, -1 if the device itself ended the
	// search. Violated is set if that relation does not admit a mandatory device.
	Cover    int
	Violated bool
}

// Stats counts work.
type Stats struct {
	// Steps are the candidates tried, requests entered and augmentations in flows. Checks during look-ahead
	// count at a lower rate.
	Steps int64
	// Decisions is the number of devices chosen, Backtracks that of choices undone, and Checks that of
	// candidates checked.
	Decisions, Backtracks, Checks int64
}

// Add adds the work of another search.
func (s *Stats) Add(other Stats) {
	s.Steps += other.Steps
	s.Decisions += other.Decisions
	s.Backtracks += other.Backtracks
	s.Checks += other.Checks
}

// Rules are the pruning rules. Switching one off does not change the result.
type Rules uint32

const (
	// RuleAhead enables look-ahead after the first dead end.
	RuleAhead Rules = 1 << iota
	// RuleRoot fails at the root if requests have too few candidates, alone or together.
	RuleRoot
	// RulePairs restricts the first attempt to devices that the next request can match.
	RulePairs
	// RuleFlow matches open requests with devices.
	RuleFlow
	// RuleCumulative compares what open requests need of a kind of resource with what is left.
	RuleCumulative
	// RuleDistinct matches open requests with devices of different values.
	RuleDistinct
	// RuleSupport fails if no value can serve all open requests of a Match relation.
	RuleSupport
	// RuleRootSupport removes candidates without such a value at the root.
	RuleRootSupport
	// RuleCardinality fails if the Match relations over one column cannot each have a value.
	RuleCardinality
	// RuleSums fails if an open request cannot reach its totals.
	RuleSums
	// RuleSymmetry skips candidates that are interchangeable with one that failed.
	RuleSymmetry
	// RuleNogoods remembers states below which there is no solution.
	RuleNogoods
	// RuleEqual gives the later of two interchangeable requests or claims no earlier choice.
	RuleEqual
	// RulePacking compares what open requests need with the largest subset sum of each resource.
	RulePacking
	// RuleServing bounds what devices that compete for resources can serve together.
	RuleServing
	// RuleCompletion searches for a completion of the choices made so far in another order of requests.
	RuleCompletion

	// AllRules is all of them.
	AllRules = 1<<iota - 1
)
