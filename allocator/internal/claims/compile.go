// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
)

// Classes looks up DeviceClasses.
type Classes interface {
	Get(name string) (*resourceapi.DeviceClass, error)
}

// Compile checks claims and joins them with their classes. Extended is their extension, nil for none. Topology
// are preferences of the allocator for all claims. An error names claim and field.
func Compile(e *eligibility.Evaluator, objects []*resourceapi.ResourceClaim, extended *Extended, topology []resourceapi.FullyQualifiedName, classes Classes) (*Compiled, error) {
	c := compiler{
		problem:   &Compiled{Claims: make([]Claim, len(objects))},
		evaluator: e,
		features:  e.Features(),
		classes:   classes,
		filters:   make(map[string]int),
		key:       memo.NewKey(),
	}
	total := 0
	for i, object := range objects {
		if object == nil {
			return nil, fmt.Errorf("claim %d is nil", i)
		}
		total += len(object.Spec.Devices.Requests)
	}
	c.problem.Requests = make([]Request, 0, total)
	for i, object := range objects {
		if err := c.claim(i, object, extended.of(i)); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.problem.Claims[i].Ref(), err)
		}
	}
	if extended != nil {
		if err := c.extend(extended); err != nil {
			return nil, err
		}
	}
	if err := CheckTopology(topology); err != nil {
		return nil, err
	}
	c.topology(topology)
	c.addDomains()
	return c.problem, nil
}

// compiler holds what the claims of one Compiled share during compilation.
type compiler struct {
	problem   *Compiled
	evaluator *eligibility.Evaluator
	features  eligibility.Features
	classes   Classes
	// filters are positions in Compiled.Filters, by the key of their terms.
	filters map[string]int
	key     memo.Key // scratch buffer
	// extension is the extension of the current claim.
	extension extension.Claim
}

func (c *compiler) claim(index int, object *resourceapi.ResourceClaim, more extension.Claim) error {
	compiled := &c.problem.Claims[index]
	compiled.Object = object
	c.extension = more
	first := len(c.problem.Requests)
	for i := range object.Spec.Devices.Requests {
		asked := &object.Spec.Devices.Requests[i]
		before := len(c.problem.Alternatives)
		if err := c.request(index, asked); err != nil {
			return fmt.Errorf("request %s: %w", asked.Name, err)
		}
		c.problem.Requests = append(c.problem.Requests, Request{
			Claim: index, Position: i, Name: asked.Name, Prioritized: len(asked.FirstAvailable) > 0,
			Alternatives: slices.Clip(c.problem.Alternatives[before:]),
		})
	}
	compiled.Requests = c.problem.Requests[first:]
	return c.constraints(index)
}

// request adds the alternatives of a request.
func (c *compiler) request(claim int, asked *resourceapi.DeviceRequest) error {
	switch {
	case len(asked.FirstAvailable) == 0 && asked.Exactly == nil:
		return errors.New("neither exactly nor firstAvailable is set (unsupported kind of request)")
	case len(asked.FirstAvailable) == 0:
		return c.alternatives(&Alternative{Claim: claim, Name: asked.Name}, asked.Exactly)
	case !c.features.PrioritizedList:
		return &explain.FeatureOffError{Field: "firstAvailable", Feature: "DRAPrioritizedList"}
	}
	for i := range asked.FirstAvailable {
		sub := &asked.FirstAvailable[i]
		if err := c.alternatives(&Alternative{Claim: claim, Name: asked.Name + "/" + sub.Name}, exactly(sub)); err != nil {
			return fmt.Errorf("subrequest %s: %w", sub.Name, err)
		}
	}
	return nil
}

// exactly returns the exact request with the fields of a subrequest.
func exactly(sub *resourceapi.DeviceSubRequest) *resourceapi.ExactDeviceRequest {
	return &resourceapi.ExactDeviceRequest{
		DeviceClassName: sub.DeviceClassName, Selectors: sub.Selectors, AllocationMode: sub.AllocationMode, Count: sub.Count,
		Tolerations: sub.Tolerations, Capacity: sub.Capacity, DerivedAttributes: sub.DerivedAttributes,
	}
}

// alternatives completes an alternative that has claim, request and name. The alternative is added once, or
// once for each number of devices that it may have.
func (c *compiler) alternatives(alt *Alternative, asked *resourceapi.ExactDeviceRequest) error {
	more := c.extension.Requests[alt.Name]
	if err := c.complete(alt, asked, more); err != nil {
		return err
	}
	numbers, err := alt.numbers(more)
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		c.add(alt)
	}
	for _, count := range numbers {
		one := *alt
		one.Count, one.Extra = count, count > alt.Count
		c.add(&one)
	}
	return nil
}

func (c *compiler) add(alt *Alternative) {
	alt.ID = len(c.problem.Alternatives)
	c.problem.Alternatives = append(c.problem.Alternatives, alt)
}

// complete fills in what a request asks for.
func (c *compiler) complete(alt *Alternative, asked *resourceapi.ExactDeviceRequest, more extension.Request) error {
	if err := c.gates(asked); err != nil {
		return err
	}
	if asked.DeviceClassName == "" {
		return errors.New("deviceClassName is empty (unsupported kind of request)")
	}
	alt.Admin, alt.Tolerations, alt.Capacity = ptr.Deref(asked.AdminAccess, false), asked.Tolerations, asked.Capacity
	alt.Derived = c.evaluator.Derived(asked.DerivedAttributes)
	if err := alt.setCount(asked); err != nil {
		return err
	}
	if err := alt.setTotals(more); err != nil {
		return err
	}
	alt.Offers = alt.offerBuffer[:0]
	if err := c.offer(alt, asked.DeviceClassName, asked.Selectors); err != nil {
		return err
	}
	for i, class := range more.Classes {
		if alt.All {
			return errors.New("several classes do not go with allocationMode All")
		}
		if err := c.offer(alt, class.DeviceClassName, class.Selectors); err != nil {
			return fmt.Errorf("class %d beside it: %w", i, err)
		}
	}
	return c.filter(alt)
}

// offer adds a class that may serve an alternative.
func (c *compiler) offer(alt *Alternative, className string, selectors []resourceapi.DeviceSelector) error {
	class, err := c.classes.Get(className)
	if err != nil {
		return fmt.Errorf("deviceClassName: %w", err)
	}
	alt.Offers = append(alt.Offers, eligibility.Offer{Class: class, Selectors: selectors})
	return nil
}

// gates returns an error for a field whose feature is off, rather than ignoring it.
func (c *compiler) gates(asked *resourceapi.ExactDeviceRequest) error {
	switch f := c.features; {
	case asked.Capacity != nil && !f.ConsumableCapacity:
		return &explain.FeatureOffError{Field: "capacity", Feature: "DRAConsumableCapacity"}
	case len(asked.DerivedAttributes) > 0 && !f.DerivedAttributes:
		return &explain.FeatureOffError{Field: "derivedAttributes", Feature: "DRADerivedAttributes"}
	case asked.AdminAccess != nil && !f.AdminAccess:
		return &explain.FeatureOffError{Field: "adminAccess", Feature: "DRAAdminAccess"}
	}
	return nil
}

// MostCount bounds Count, so that sums do not overflow.
const MostCount = math.MaxInt32

// setCount reads allocation mode and count.
func (alt *Alternative) setCount(asked *resourceapi.ExactDeviceRequest) error {
	switch asked.AllocationMode {
	case resourceapi.DeviceAllocationModeExactCount:
		if asked.Count < 0 {
			return fmt.Errorf("count %d is negative", asked.Count)
		}
		alt.Count, alt.Asked = int(min(asked.Count, MostCount)), asked.Count
	case resourceapi.DeviceAllocationModeAll:
		alt.All = true
	default:
		return fmt.Errorf("allocationMode %q is not supported", asked.AllocationMode)
	}
	return nil
}

// filter returns the filter for the terms of an alternative, made if it is missing.
func (c *compiler) filter(alt *Alternative) error {
	c.key.Bytes = c.key.Bytes[:0]
	selection := alt.AppendKey(&c.key)
	position, known := c.filters[string(c.key.Bytes)]
	if !known {
		made, err := c.evaluator.Filter(&alt.Terms, c.key.Bytes[:selection])
		if err != nil {
			return err
		}
		position = len(c.problem.Filters)
		c.filters[string(c.key.Bytes)] = position
		c.problem.Filters = append(c.problem.Filters, made)
	}
	alt.Filter = position
	return nil
}

func (c *compiler) constraints(claim int) error {
	for i, asked := range c.problem.Claims[claim].Object.Spec.Devices.Constraints {
		built := Constraint{Claim: claim, Position: i, Requests: asked.Requests}
		switch {
		case asked.MatchAttribute != nil:
			built.Attribute = *asked.MatchAttribute
		case asked.DistinctAttribute != nil:
			built.Kind, built.Attribute = solver.Distinct, *asked.DistinctAttribute
		default:
			return fmt.Errorf("constraint %d: neither matchAttribute nor distinctAttribute is set (unsupported kind of constraint)", i)
		}
		c.constrain(built, c.problem.Claims[claim].Requests)
	}
	return nil
}

// constrain adds a constraint to the alternatives that its names cover. No names cover all; the name of a
// request covers its subrequests. Topology preferences leave out allocationMode All, for which a violated
// constraint is an error.
func (c *compiler) constrain(built Constraint, requests []Request) {
	for r := range requests {
		for _, alt := range requests[r].Alternatives {
			if (len(built.Requests) == 0 || Named(built.Requests, requests[r].Name, alt.Name)) && (!built.Topology || !alt.All) {
				alt.Constraints = append(alt.Constraints, len(c.problem.Constraints))
			}
		}
	}
	built.lists = c.features.ListTypeAttributes
	c.problem.Constraints = append(c.problem.Constraints, built)
}

// Named reports whether names refer to an alternative of a request.
func Named(names []string, request, alternative string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name == request || name == alternative })
}

// Asked writes what problems of one kind have in common. The problem must not be Particular. Names of claims
// and requests, and configurations, do not affect which devices are chosen.
var Asked = keys.Writer[*Compiled]{
	{Covers: nil, Write: func(k *memo.Key, p *Compiled) {
		k.Number(len(p.Filters))
		for _, f := range p.Filters {
			f.AppendKey(k)
		}
		k.Number(len(p.Constraints))
		for i := range p.Constraints {
			Constrained.Append(k, &p.Constraints[i])
		}
		k.Number(len(p.Domains))
		for _, alt := range p.Domains {
			k.Bytes = append(k.Bytes, alt.domainKey...)
		}
		for r := range p.Requests {
			k.Number(p.Requests[r].Claim)
			k.Number(len(p.Requests[r].Alternatives))
			for _, alt := range p.Requests[r].Alternatives {
				k.Number(alt.Domain)
			}
		}
	}},
	{Covers: keys.Rows(reads.Claim, "Spec.Devices.Requests[].Exactly.Count", "Spec.Devices.Requests[].FirstAvailable[].Count"), Write: func(k *memo.Key, p *Compiled) {
		for _, alt := range p.Alternatives {
			k.Number(alt.Count)
		}
	}},
}

// Constrained writes what is compared and how. Which requests it covers is part of Seen. Lists depend on a
// feature.
var Constrained = keys.Writer[*Constraint]{
	{Covers: keys.Rows(reads.Claim, "Spec.Devices.Constraints[].MatchAttribute", "Spec.Devices.Constraints[].DistinctAttribute"), Write: func(k *memo.Key, c *Constraint) {
		k.Number(int(c.Kind))
		k.Text(string(c.Attribute))
	}},
	{Covers: nil, Write: func(k *memo.Key, c *Constraint) {
		k.Number(c.Most)
		k.Flags(c.Capacity, c.Preferred, c.Topology, c.lists)
	}},
}

// AppendKey appends the key of the problem's kind.
func (p *Compiled) AppendKey(k *memo.Key) { Asked.Append(k, p) }

// addDomains numbers alternatives by their demands on devices.
func (c *compiler) addDomains() {
	p := c.problem
	c.key.Bytes = c.key.Bytes[:0]
	for _, alt := range p.Alternatives {
		first := len(c.key.Bytes)
		Seen.Append(&c.key, alt)
		alt.domainKey = c.key.Bytes[first:]
		alt.Domain = slices.IndexFunc(p.Domains, func(other *Alternative) bool { return bytes.Equal(alt.domainKey, other.domainKey) })
		if alt.Domain < 0 {
			alt.Domain = len(p.Domains)
			p.Domains = append(p.Domains, alt)
		}
	}
}

// Seen writes the demands of an alternative on devices. With admin access they include the claim.
var Seen = keys.Writer[*Alternative]{
	{Covers: nil, Write: func(k *memo.Key, alt *Alternative) {
		k.Number(alt.Filter)
		k.Number(len(alt.Totals))
		for _, total := range alt.Totals {
			k.Text(string(total.Name))
		}
		if k.Flags(alt.Admin); alt.Admin {
			k.Number(alt.Claim)
		}
	}},
	{Covers: keys.Rows(reads.Claim, "Spec.Devices.Constraints[].Requests[]"), Write: func(k *memo.Key, alt *Alternative) {
		k.Number(len(alt.Constraints))
		for _, position := range alt.Constraints {
			k.Number(position)
		}
	}},
	{Covers: derived("Name"), Write: func(k *memo.Key, alt *Alternative) {
		k.Number(len(alt.Derived))
		for i := range alt.Derived {
			k.Text(string(alt.Derived[i].Name))
		}
	}},
	{Covers: derived("Expression"), Write: func(k *memo.Key, alt *Alternative) {
		for i := range alt.Derived {
			k.Text(alt.Derived[i].Expression)
		}
	}},
}

func derived(field string) []keys.Row {
	return keys.Rows(reads.Claim, "Spec.Devices.Requests[].Exactly.DerivedAttributes[]."+field, "Spec.Devices.Requests[].FirstAvailable[].DerivedAttributes[]."+field)
}
