package allocator

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Compile checks claims and joins them with their classes. Claims are allocated
// together, in order. An error names claim and field; it means that the claims
// cannot be allocated on any node until the input changes. The claims and classes
// are kept and must not be modified while the Problem is in use.
func (a *Allocator) Compile(claims []*resourceapi.ResourceClaim, classes Classes) (*Problem, error) {
	c := compiler{
		problem: &Problem{allocator: a, claims: make([]claim, len(claims))},
		classes: classes,
		filters: make(map[string]int),
	}
	for i, object := range claims {
		if object == nil {
			return nil, fmt.Errorf("claim %d is nil", i)
		}
		if err := c.claim(i, object); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.problem.claims[i].ref(), err)
		}
	}
	_, c.problem.repeats = a.policy.(FirstFit)
	c.problem.alternatives(func(_ *claim, alt *alternative) { c.problem.wantsAll = c.problem.wantsAll || alt.all })
	var err error
	c.problem.kind, err = a.kindOf(c.problem)
	return c.problem, err
}

// compiler carries what compiling the claims of one Problem shares.
type compiler struct {
	problem *Problem
	classes Classes
	// filters are positions in problem.filters, by what makes a filter.
	filters map[string]int
	key     spelling // room to work in
	nextID  int
}

func (c *compiler) features() Features { return c.problem.allocator.features }

func (c *compiler) claim(index int, object *resourceapi.ResourceClaim) error {
	compiled := &c.problem.claims[index]
	compiled.object = object
	compiled.requests = make([]request, len(object.Spec.Devices.Requests))
	for i := range object.Spec.Devices.Requests {
		asked := &object.Spec.Devices.Requests[i]
		r, err := c.request(index, i, asked)
		if err != nil {
			return fmt.Errorf("request %s: %w", asked.Name, err)
		}
		compiled.requests[i] = r
	}
	return c.constraints(compiled)
}

func (c *compiler) request(claim, index int, asked *resourceapi.DeviceRequest) (request, error) {
	compiled := request{name: asked.Name, prioritized: len(asked.FirstAvailable) > 0}
	if !compiled.prioritized {
		if asked.Exactly == nil {
			return compiled, errors.New("neither exactly nor firstAvailable is set (unsupported kind of request)")
		}
		alt, err := c.alternative(asked.Name, exactTerms(asked.Exactly))
		if err != nil {
			return compiled, err
		}
		alt.claim, alt.request = claim, index
		compiled.alternatives = []*alternative{alt}
		return compiled, nil
	}
	if !c.features().PrioritizedList {
		return compiled, errors.New("firstAvailable needs the feature DRAPrioritizedList, which is off")
	}
	compiled.alternatives = make([]*alternative, 0, len(asked.FirstAvailable))
	for i := range asked.FirstAvailable {
		sub := &asked.FirstAvailable[i]
		alt, err := c.alternative(asked.Name+"/"+sub.Name, subrequestTerms(sub))
		if err != nil {
			return compiled, fmt.Errorf("subrequest %s: %w", sub.Name, err)
		}
		alt.claim, alt.request, alt.index = claim, index, i
		compiled.alternatives = append(compiled.alternatives, alt)
	}
	return compiled, nil
}

// terms are the fields which exact requests and subrequests have in common.
type terms struct {
	className   string
	selectors   []resourceapi.DeviceSelector
	mode        resourceapi.DeviceAllocationMode
	count       int64
	admin       *bool
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	derived     []resourceapi.DeviceDerivedAttribute
}

func exactTerms(r *resourceapi.ExactDeviceRequest) terms {
	return terms{
		className: r.DeviceClassName, selectors: r.Selectors, mode: r.AllocationMode, count: r.Count,
		admin: r.AdminAccess, tolerations: r.Tolerations, capacity: r.Capacity, derived: r.DerivedAttributes,
	}
}

func subrequestTerms(r *resourceapi.DeviceSubRequest) terms {
	return terms{
		className: r.DeviceClassName, selectors: r.Selectors, mode: r.AllocationMode, count: r.Count,
		tolerations: r.Tolerations, capacity: r.Capacity, derived: r.DerivedAttributes,
	}
}

func (c *compiler) alternative(name string, t terms) (*alternative, error) {
	if err := c.gates(t); err != nil {
		return nil, err
	}
	if t.className == "" {
		return nil, errors.New("deviceClassName is empty (unsupported kind of request)")
	}
	class, err := c.classes.Get(t.className)
	if err != nil {
		return nil, fmt.Errorf("deviceClassName: %w", err)
	}
	alt := &alternative{
		id:          c.nextID,
		name:        name,
		class:       class,
		admin:       ptr.Deref(t.admin, false),
		tolerations: t.tolerations,
		derived:     c.derived(t.derived),
	}
	c.nextID++
	c.problem.byID = append(c.problem.byID, alt)
	if err := alt.setCount(t); err != nil {
		return nil, err
	}
	alt.filter, err = c.use(class, t)
	return alt, err
}

// gates refuses what needs a feature that is off, rather than ignoring it.
func (c *compiler) gates(t terms) error {
	f := c.features()
	switch {
	case t.capacity != nil && !f.ConsumableCapacity:
		return errors.New("capacity needs the feature DRAConsumableCapacity, which is off")
	case len(t.derived) > 0 && !f.DerivedAttributes:
		return errors.New("derivedAttributes needs the feature DRADerivedAttributes, which is off")
	case t.admin != nil && !f.AdminAccess:
		return errors.New("adminAccess needs the feature DRAAdminAccess, which is off")
	}
	return nil
}

// setCount reads allocation mode and count. A count above any limit is kept at one
// above the limit of a claim, so that sums cannot overflow.
func (alt *alternative) setCount(t terms) error {
	switch t.mode {
	case resourceapi.DeviceAllocationModeExactCount:
		if t.count < 0 {
			return fmt.Errorf("count %d is negative", t.count)
		}
		alt.count = int(min(t.count, resourceapi.AllocationResultsMaxSize+1))
	case resourceapi.DeviceAllocationModeAll:
		alt.all = true
	default:
		return fmt.Errorf("allocationMode %q is not supported", t.mode)
	}
	return nil
}

func (c *compiler) constraints(compiled *claim) error {
	for i, asked := range compiled.object.Spec.Devices.Constraints {
		built, err := newConstraint(c.features(), asked)
		if err != nil {
			return fmt.Errorf("constraint %d: %w", i, err)
		}
		compiled.constraints = append(compiled.constraints, built)
		for r := range compiled.requests {
			bind(&compiled.requests[r], asked.Requests, i)
		}
	}
	return nil
}

// bind attaches constraint i to the alternatives of r that names cover. No names
// cover everything; the name of a request covers all its subrequests.
func bind(r *request, names []string, i int) {
	for _, alt := range r.alternatives {
		if covers(names, r.name, alt.name) {
			alt.constraints = append(alt.constraints, i)
		}
	}
}

func covers(names []string, request, alternative string) bool {
	for _, name := range names {
		if name == request || name == alternative {
			return true
		}
	}
	return len(names) == 0
}
