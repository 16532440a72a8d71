package claims

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// Extended is what claims ask for beyond resource.k8s.io/v1.
type Extended struct {
	// Claims are those of the problem, by position.
	Claims []extension.Claim
	// Allocated are claims that are allocated already, with what they ask for.
	Allocated []Allocated
}

// Allocated is a claim that is allocated already. Its devices take part in what is to match across
// claims.
type Allocated struct {
	extension.Claim
	Devices []pool.DeviceID
}

// of is what a claim asks for.
func (x *Extended) of(claim int) extension.Claim {
	if x == nil {
		return extension.Claim{}
	}
	return x.Claims[claim]
}

// checkNames refuses what is said about requests that a claim does not have.
func checkNames(claim *resourceapi.ResourceClaim, more extension.Claim) error {
	known := make(map[string]bool)
	for _, request := range claim.Spec.Devices.Requests {
		known[request.Name] = len(request.FirstAvailable) == 0
		for _, sub := range request.FirstAvailable {
			known[request.Name+"/"+sub.Name] = true
		}
	}
	for name := range more.Requests {
		if !known[name] {
			return fmt.Errorf("extension: request %s is not there, or has alternatives", name)
		}
	}
	return nil
}

// numbers are how many devices an alternative may have, in the order in which it is tried: as many as
// possible, or as few if their amounts decide.
func (alt *Alternative) numbers(more extension.Request) ([]int, error) {
	if more.UpTo == 0 && len(alt.Totals) == 0 {
		return nil, nil // what there is by itself
	}
	most := int64(resourceapi.AllocationResultsMaxSize) // a claim holds no more
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

// setTotals reads what the devices must have together.
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

// across adds a constraint for each attribute that is to match across claims.
func (c *compiler) across(x *Extended) {
	if x == nil {
		return
	}
	for claim, more := range x.Claims {
		for i, attribute := range more.MatchAcross {
			if slices.Contains(more.MatchAcross[:i], attribute) || x.named(attribute, claim) {
				continue
			}
			c.match(x, constraintAcross(c.features, attribute), func(other extension.Claim) bool { return slices.Contains(other.MatchAcross, attribute) })
		}
	}
}

// named reports whether a claim before names the attribute.
func (x *Extended) named(attribute resourceapi.FullyQualifiedName, claim int) bool {
	return slices.ContainsFunc(x.Claims[:claim], func(other extension.Claim) bool { return slices.Contains(other.MatchAcross, attribute) })
}

// capacities adds a constraint for each capacity that is to match in a claim.
func (c *compiler) capacities(x *Extended) error {
	if x == nil {
		return nil
	}
	for claim, more := range x.Claims {
		of := &c.problem.Claims[claim]
		if n := len(more.MatchCapacities); n > extension.MatchesMaxSize {
			return fmt.Errorf("claim %s: extension: matchCapacities has %d elements, the most are %d", of.Ref(), n, extension.MatchesMaxSize)
		}
		for i, asked := range more.MatchCapacities {
			err := knownNames(asked.Requests, of.Requests)
			if domain, id, ok := strings.Cut(string(asked.Capacity), "/"); !ok || domain == "" || id == "" {
				err = fmt.Errorf("capacity %q is not domain/name", asked.Capacity)
			}
			if err != nil {
				return fmt.Errorf("claim %s: extension: match of capacities %d: %w", of.Ref(), i, err)
			}
			for r := range of.Requests {
				bind(&of.Requests[r], asked.Requests, len(c.problem.Constraints))
			}
			c.problem.Constraints = append(c.problem.Constraints, Constraint{
				Kind: solver.Match, Attribute: asked.Capacity, Capacity: true, Claim: claim, Position: i,
			})
		}
	}
	return nil
}

// match covers all requests of the claims that name a constraint across claims.
func (c *compiler) match(x *Extended, built Constraint, names func(extension.Claim) bool) {
	for claim, more := range x.Claims {
		if !names(more) {
			continue
		}
		requests := c.problem.Claims[claim].Requests
		for r := range requests {
			bind(&requests[r], nil, len(c.problem.Constraints))
		}
	}
	for _, allocated := range x.Allocated {
		if names(allocated.Claim) {
			built.Held = append(built.Held, allocated.Devices...)
		}
	}
	c.problem.Constraints = append(c.problem.Constraints, built)
}
