// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// Extended is the extensions of claims to resource.k8s.io/v1.
type Extended struct {
	// Claims are those of the claims in the problem, by position.
	Claims []extension.Claim
	// Allocated are claims that are already allocated, with their extensions.
	Allocated []Allocated
}

// Allocated is a claim that is already allocated. Its devices take part in constraints across claims.
type Allocated struct {
	extension.Claim
	Devices []pool.DeviceID
}

// of returns the extension of a claim.
func (x *Extended) of(claim int) extension.Claim {
	if x == nil {
		return extension.Claim{}
	}
	return x.Claims[claim]
}

// numbers returns how many devices an alternative may have, in the order in which numbers are tried:
// descending, or ascending with totals. It is nil if the alternative has no choice.
func (alt *Alternative) numbers(more extension.Request) ([]int, error) {
	if more.UpTo == 0 && len(alt.Totals) == 0 {
		return nil, nil // only the count
	}
	most := int64(resourceapi.AllocationResultsMaxSize) // the limit of a claim
	if more.UpTo > 0 {
		most = min(more.UpTo, most)
	}
	switch {
	case alt.All:
		return nil, errors.New("upTo and totals do not go with allocationMode All")
	case more.UpTo != 0 && more.UpTo < int64(alt.Count):
		return nil, fmt.Errorf("upTo %d is less than the count %d", more.UpTo, alt.Count)
	}
	var numbers []int
	for n := alt.Count; n <= max(alt.Count, int(most)); n++ {
		numbers = append(numbers, n)
	}
	if len(alt.Totals) == 0 {
		slices.Reverse(numbers)
	}
	return numbers, nil
}

// setTotals reads the totals of an extension.
func (alt *Alternative) setTotals(more extension.Request) error {
	if len(more.Totals) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(more.Totals)) {
		asked := more.Totals[name]
		switch {
		case asked.Sign() <= 0:
			return fmt.Errorf("totals %s: %s is not above zero", name, asked.String())
		case !quantity.InRange(asked):
			return fmt.Errorf("totals %s: the value is out of range", name)
		}
		alt.Totals = append(alt.Totals, Total{Name: name, Quantity: asked, Amount: quantity.Amount(asked)})
	}
	alt.Count = max(alt.Count, 1)
	return nil
}

// extend adds the constraints of extensions: those across claims, those of capacities, limits of distinct
// values, and preferences.
func (c *compiler) extend(x *Extended) error {
	for claim, more := range x.Claims {
		for _, name := range slices.Sorted(maps.Keys(more.Requests)) {
			if !slices.ContainsFunc(c.problem.Alternatives, func(alt *Alternative) bool { return alt.Claim == claim && alt.Name == name }) {
				return fmt.Errorf("claim %s: extension: request %s is not there, or has alternatives", c.problem.Claims[claim].Ref(), name)
			}
		}
		for _, attribute := range more.MatchAcross {
			c.across(x, claim, Constraint{Attribute: attribute}, func(of extension.Claim) bool {
				return slices.Contains(of.MatchAcross, attribute)
			})
		}
	}
	for claim, more := range x.Claims {
		if err := c.eachUpTo(claim, "match of capacities", "matches of capacities", len(more.MatchCapacities), func(i int) error {
			return c.matchCapacity(claim, i, more.MatchCapacities[i])
		}); err != nil {
			return err
		}
	}
	for claim, more := range x.Claims {
		if err := c.eachUpTo(claim, "limit of distinct values", "limits of distinct values", len(more.MaxDistinct), func(i int) error {
			return c.limit(claim, i, more.MaxDistinct[i])
		}); err != nil {
			return err
		}
	}
	for claim, more := range x.Claims {
		if err := c.eachUpTo(claim, "preference", "preferences", len(more.Preferred), func(i int) error {
			return c.prefer(x, claim, i, more.Preferred[i])
		}); err != nil {
			return err
		}
	}
	return nil
}

// eachUpTo adds the constraints of one kind of a claim, up to a limit.
func (c *compiler) eachUpTo(claim int, one, all string, n int, add func(i int) error) error {
	if n > extension.MatchesMaxSize {
		return fmt.Errorf("claim %s: extension: %d %s, a claim has at most %d", c.problem.Claims[claim].Ref(), n, all, extension.MatchesMaxSize)
	}
	for i := range n {
		if err := add(i); err != nil {
			return fmt.Errorf("claim %s: extension: %s %d: %w", c.problem.Claims[claim].Ref(), one, i, err)
		}
	}
	return nil
}

// across adds a constraint that covers all requests of the claims that name it. It is added once, for the first
// of them.
func (c *compiler) across(x *Extended, claim int, built Constraint, names func(extension.Claim) bool) {
	built.Claim = AcrossClaims
	same := func(k Constraint) bool {
		return k.Claim == AcrossClaims && k.Attribute == built.Attribute && k.Preferred == built.Preferred
	}
	if slices.ContainsFunc(c.problem.Constraints, same) {
		return
	}
	var covered []Request
	for other := claim; other < len(x.Claims); other++ {
		if names(x.Claims[other]) {
			covered = append(covered, c.problem.Claims[other].Requests...)
		}
	}
	for _, allocated := range x.Allocated {
		if names(allocated.Claim) {
			built.Held = append(built.Held, allocated.Devices...)
		}
	}
	c.constrain(built, covered)
}

func (c *compiler) matchCapacity(claim, i int, asked extension.CapacityMatch) error {
	if domain, id, _ := strings.Cut(string(asked.Capacity), "/"); domain == "" || id == "" {
		return fmt.Errorf("capacity %q is not domain/name", asked.Capacity)
	}
	return c.match(Constraint{Attribute: asked.Capacity, Capacity: true, Claim: claim, Position: i, Requests: asked.Requests})
}

func (c *compiler) limit(claim, i int, asked extension.DistinctLimit) error {
	if domain, id, _ := strings.Cut(string(asked.Attribute), "/"); domain == "" || id == "" {
		return fmt.Errorf("attribute %q is not domain/name", asked.Attribute)
	}
	if asked.Most < 1 {
		return fmt.Errorf("most: %d is not above zero", asked.Most)
	}
	// A claim has far fewer devices, and so fewer values, than 2³¹: a larger limit limits nothing.
	most := int(min(asked.Most, math.MaxInt32))
	return c.match(Constraint{Kind: solver.AtMost, Most: most, Attribute: asked.Attribute, Claim: claim, Position: i, Requests: asked.Requests})
}

// match adds a constraint of one claim. The error says that no request has one of its names.
func (c *compiler) match(built Constraint) error {
	requests := c.problem.Claims[built.Claim].Requests
	for _, name := range built.Requests {
		if !slices.ContainsFunc(requests, func(r Request) bool { return r.covers(name) }) {
			return fmt.Errorf("request %s is not there", name)
		}
	}
	c.constrain(built, requests)
	return nil
}

// covers reports whether a name is that of the request or of one of its alternatives.
func (r *Request) covers(name string) bool {
	return name == r.Name || slices.ContainsFunc(r.Alternatives, func(alt *Alternative) bool { return alt.Name == name })
}

// prefer adds the constraint for the i-th preference of a claim, unless an earlier claim added it.
func (c *compiler) prefer(x *Extended, claim, i int, asked extension.Preference) error {
	position := len(c.problem.Constraints)
	built := Constraint{Attribute: asked.MatchAttribute, Claim: claim, Position: i, Preferred: true, Requests: asked.Requests}
	switch {
	case asked.MatchAttribute == "":
		return errors.New("matchAttribute is empty")
	case asked.Across && len(asked.Requests) > 0:
		return errors.New("requests do not go with across")
	case asked.Across:
		c.across(x, claim, built, func(of extension.Claim) bool {
			return slices.ContainsFunc(of.Preferred, func(p extension.Preference) bool { return p.Across && p.MatchAttribute == asked.MatchAttribute })
		})
	default:
		if err := c.match(built); err != nil {
			return err
		}
	}
	for _, alt := range c.problem.Alternatives {
		if alt.All && alt.Covered(position) >= 0 {
			return fmt.Errorf("request %s: a preference does not go with allocationMode All", alt.Name)
		}
	}
	return nil
}
