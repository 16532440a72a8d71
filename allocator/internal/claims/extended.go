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
	for _, name := range slices.Sorted(maps.Keys(more.Requests)) {
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

// extend adds the constraints that claims ask for beyond their spec: those across claims, those of
// capacities, and those that are preferred.
func (c *compiler) extend(x *Extended) error {
	for claim, more := range x.Claims {
		for _, attribute := range more.MatchAcross {
			c.across(x, claim, Constraint{Kind: solver.Match, Attribute: attribute}, func(of extension.Claim) bool {
				return slices.Contains(of.MatchAcross, attribute)
			})
		}
	}
	for claim, more := range x.Claims {
		if n := len(more.MatchCapacities); n > extension.MatchesMaxSize {
			return fmt.Errorf("claim %s: extension: matchCapacities has %d elements, the most are %d", c.problem.Claims[claim].Ref(), n, extension.MatchesMaxSize)
		}
		for i, asked := range more.MatchCapacities {
			if err := c.matchCapacity(claim, i, asked); err != nil {
				return fmt.Errorf("claim %s: extension: match of capacities %d: %w", c.problem.Claims[claim].Ref(), i, err)
			}
		}
	}
	for claim, more := range x.Claims {
		if n := len(more.Preferred); n > extension.MatchesMaxSize {
			return fmt.Errorf("claim %s: extension: %d preferences, a claim has at most %d", c.problem.Claims[claim].Ref(), n, extension.MatchesMaxSize)
		}
		for i, asked := range more.Preferred {
			if err := c.prefer(x, claim, i, asked); err != nil {
				return fmt.Errorf("claim %s: extension: preference %d: %w", c.problem.Claims[claim].Ref(), i, err)
			}
		}
	}
	return nil
}

// across adds a constraint that covers all requests of the claims that name it. The first of them adds
// it, once.
func (c *compiler) across(x *Extended, claim int, built Constraint, names func(extension.Claim) bool) {
	built.Claim = AcrossClaims
	same := func(k Constraint) bool {
		return k.Claim == AcrossClaims && k.Attribute == built.Attribute && k.Preferred == built.Preferred
	}
	if slices.ContainsFunc(c.problem.Constraints, same) {
		return
	}
	for other := claim; other < len(x.Claims); other++ {
		if names(x.Claims[other]) {
			c.bind(other, nil)
		}
	}
	for _, allocated := range x.Allocated {
		if names(allocated.Claim) {
			built.Held = append(built.Held, allocated.Devices...)
		}
	}
	c.constrain(built)
}

func (c *compiler) matchCapacity(claim, i int, asked extension.CapacityMatch) error {
	if domain, id, ok := strings.Cut(string(asked.Capacity), "/"); !ok || domain == "" || id == "" {
		return fmt.Errorf("capacity %q is not domain/name", asked.Capacity)
	}
	if err := c.knows(claim, asked.Requests); err != nil {
		return err
	}
	c.bind(claim, asked.Requests)
	c.constrain(Constraint{Kind: solver.Match, Attribute: asked.Capacity, Capacity: true, Claim: claim, Position: i})
	return nil
}

// prefer adds the constraint for the i-th preference of a claim, unless an earlier claim added it.
func (c *compiler) prefer(x *Extended, claim, i int, asked extension.Preference) error {
	position := len(c.problem.Constraints)
	built := Constraint{
		Kind: solver.Match, Attribute: asked.MatchAttribute, Claim: claim, Position: i, Preferred: true, Requests: asked.Requests,
	}
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
		if err := c.knows(claim, asked.Requests); err != nil {
			return err
		}
		c.bind(claim, asked.Requests)
		c.constrain(built)
	}
	for _, alt := range c.problem.Alternatives {
		if alt.All && alt.Covered(position) >= 0 {
			return fmt.Errorf("request %s: a preference does not go with allocationMode All", alt.Name)
		}
	}
	return nil
}

// knows refuses names that no request of a claim has.
func (c *compiler) knows(claim int, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(c.problem.Claims[claim].Requests, func(r Request) bool {
			return name == r.Name || slices.ContainsFunc(r.Alternatives, func(alt *Alternative) bool { return alt.Name == name })
		}) {
			return fmt.Errorf("request %s is not there", name)
		}
	}
	return nil
}
