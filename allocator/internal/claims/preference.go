package claims

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/allocator/internal/solver"
)

// preferences adds a constraint for each match that is preferred.
func (c *compiler) preferences(x *Extended) error {
	if x == nil {
		return nil
	}
	for claim, more := range x.Claims {
		of := &c.problem.Claims[claim]
		if len(more.Preferred) > extension.MatchesMaxSize {
			return fmt.Errorf("claim %s: extension: %d preferences, a claim has at most %d", of.Ref(), len(more.Preferred), extension.MatchesMaxSize)
		}
		for i, asked := range more.Preferred {
			if err := c.prefer(x, claim, i, asked); err != nil {
				return fmt.Errorf("claim %s: extension: preference %d: %w", of.Ref(), i, err)
			}
		}
	}
	return nil
}

// prefer adds the constraint for the i-th preference of a claim, unless an earlier claim added it.
func (c *compiler) prefer(x *Extended, claim, i int, asked extension.Preference) error {
	position := len(c.problem.Constraints)
	built := Constraint{
		Kind: solver.Match, Attribute: asked.MatchAttribute, lists: c.features.ListTypeAttributes,
		Claim: claim, Position: i, Preferred: true, Requests: asked.Requests,
	}
	switch {
	case asked.MatchAttribute == "":
		return errors.New("matchAttribute is empty")
	case asked.Across && len(asked.Requests) > 0:
		return errors.New("requests do not go with across")
	case asked.Across:
		prefers := func(other extension.Claim) bool { return prefersAcross(other.Preferred, asked.MatchAttribute) }
		if prefersAcross(x.Claims[claim].Preferred[:i], asked.MatchAttribute) || slices.ContainsFunc(x.Claims[:claim], prefers) {
			return nil
		}
		built.Claim = AcrossClaims
		c.match(x, built, prefers)
	default:
		requests := c.problem.Claims[claim].Requests
		if err := knownNames(asked.Requests, requests); err != nil {
			return err
		}
		for r := range requests {
			bind(&requests[r], asked.Requests, position)
		}
		c.problem.Constraints = append(c.problem.Constraints, built)
	}
	for _, alt := range c.problem.Alternatives {
		if alt.All && alt.Covered(position) >= 0 {
			return fmt.Errorf("request %s: a preference does not go with allocationMode All", alt.Name)
		}
	}
	return nil
}

func prefersAcross(list []extension.Preference, attribute resourceapi.FullyQualifiedName) bool {
	return slices.ContainsFunc(list, func(p extension.Preference) bool { return p.Across && p.MatchAttribute == attribute })
}

// CheckTopology reports attributes without a domain.
func CheckTopology(attributes []resourceapi.FullyQualifiedName) error {
	for _, attribute := range attributes {
		if domain, id, _ := strings.Cut(string(attribute), "/"); domain == "" || id == "" {
			return fmt.Errorf("topology: attribute %q: want domain/name", attribute)
		}
	}
	return nil
}

// topology adds a preference of each attribute for all devices of a claim, and then for those of each
// request that has several.
func (c *compiler) topology(attributes []resourceapi.FullyQualifiedName) {
	for _, attribute := range attributes {
		for claim := range c.problem.Claims {
			requests := c.problem.Claims[claim].Requests
			all := mostDevices(requests)
			c.align(claim, attribute, requests)
			for r := range requests {
				if one := requests[r : r+1]; mostDevices(one) < all {
					c.align(claim, attribute, one)
				}
			}
		}
	}
}

// align adds a preference for the requests of a claim. Devices that must be had are left out: one that
// violates a constraint is an error.
func (c *compiler) align(claim int, attribute resourceapi.FullyQualifiedName, requests []Request) {
	if mostDevices(requests) < 2 {
		return
	}
	for r := range requests {
		for _, alt := range requests[r].Alternatives {
			if !alt.All {
				alt.Constraints = append(alt.Constraints, len(c.problem.Constraints))
			}
		}
	}
	c.problem.Constraints = append(c.problem.Constraints, Constraint{
		Kind: solver.Match, Attribute: attribute, lists: c.features.ListTypeAttributes, Claim: claim, Preferred: true, Topology: true,
	})
}

// mostDevices is how many devices requests have at most, those for all devices left aside.
func mostDevices(requests []Request) (n int) {
	for r := range requests {
		most := 0
		for _, alt := range requests[r].Alternatives {
			most = max(most, alt.Count)
		}
		n += most
	}
	return n
}

// knownNames refuses names that no request has.
func knownNames(names []string, requests []Request) error {
	for _, name := range names {
		if !slices.ContainsFunc(requests, func(r Request) bool {
			return name == r.Name || slices.ContainsFunc(r.Alternatives, func(alt *Alternative) bool { return alt.Name == name })
		}) {
			return fmt.Errorf("request %s is not there", name)
		}
	}
	return nil
}
