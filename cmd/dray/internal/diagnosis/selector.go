// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
)

// bySelector returns the finding for a selector. It names the selector by its position, with its
// text if it is the claim's own, and has the values of the rejected devices.
func (d *Diagnosis) bySelector(r *request, rejection explain.Rejection) Finding {
	s := rejection.Selector
	if s == nil {
		return Finding{Devices: rejection.Devices, Phrase: rejection.Phrase()}
	}
	f := Finding{Devices: rejection.Devices, Phrase: fmt.Sprintf("not matching selectors[%d]", s.Position)}
	if rejection.OfClass() {
		f.Phrase = "not of class " + r.classes()
	}
	if d.Brief {
		return f
	}
	var rejected, others []device
	for _, one := range d.devices(func(device) bool { return true }) {
		if first := d.firstRejection(r, one); first != nil && *first == *s {
			rejected = append(rejected, one)
		} else {
			others = append(others, one)
		}
	}
	if rejection.OfClass() && len(others) > 0 {
		// devices of other classes are mentioned only if the node has no others
		return f
	}
	f.Details = d.values(s.Expression, rejected)
	return f
}

// classes returns the names of the classes that the request permits.
func (r *request) classes() string {
	names := make([]string, 0, len(r.offers))
	for i := range r.offers {
		if r.offers[i].class != nil {
			names = append(names, r.offers[i].class.Name)
		}
	}
	return strings.Join(names, " or ")
}

// inOrder returns the selectors of a class, which may be nil, and of a request, in the order of
// evaluation.
func inOrder(class *resourceapi.DeviceClass, own []resourceapi.DeviceSelector) []explain.Selector {
	var list []explain.Selector
	add := func(class string, selectors []resourceapi.DeviceSelector) {
		for i, selector := range selectors {
			if selector.CEL != nil {
				list = append(list, explain.Selector{Class: class, Position: i, Expression: selector.CEL.Expression})
			}
		}
	}
	if class != nil {
		add(class.Name, class.Spec.Selectors)
	}
	add("", own)
	return list
}

// firstRejection returns the first selector that a device does not match, or nil if it matches all.
// It caches results.
func (d *Diagnosis) firstRejection(r *request, one device) *explain.Selector {
	all, known := d.rejected[r]
	if !known {
		for _, each := range d.devices(func(device) bool { return true }) {
			all = append(all, d.rejecting(r, each))
		}
		d.rejected[r] = all
	}
	return all[one.position]
}

// rejecting is firstRejection without the cache. If several classes are permitted, it returns the
// selector of the class that comes closest: the first one whose class selectors the device matches,
// or else the first one.
func (d *Diagnosis) rejecting(r *request, one device) *explain.Selector {
	var closest *explain.Selector
	for i := range r.offers {
		all := r.offers[i].selectors
		rejecting := slices.IndexFunc(all, func(s explain.Selector) bool { return !d.matches(s.Expression, one) })
		if rejecting < 0 {
			return nil
		}
		if closest == nil || closest.Class != "" && all[rejecting].Class == "" {
			closest = &all[rejecting]
		}
	}
	return closest
}

func (d *Diagnosis) matches(expression string, one device) bool {
	return d.cluster.Matches(expression, one.pool, one.DeviceState)
}

// values returns the values of rejected devices for each part of a selector that rejects devices.
func (d *Diagnosis) values(expression string, rejected []device) []Detail {
	var details []Detail
	for _, part := range d.conjuncts(expression) {
		program, err := d.programs.Selector(part)
		if err != nil {
			continue
		}
		var failing, others []device
		for _, one := range rejected {
			if d.matches(part, one) {
				others = append(others, one)
			} else {
				failing = append(failing, one)
			}
		}
		if rejected = others; len(failing) > 0 {
			details = append(details, Detail{Text: part + ": ", Counts: d.reads(program, failing)})
		}
	}
	return details
}

// reads counts the values of the attributes and capacities that an expression reads.
func (d *Diagnosis) reads(program *cel.Program, devices []device) []Counts {
	var all []Counts
	reads := program.Reads()
	if reads.Driver {
		all = append(all, count("driver is ", devices, func(one device) string { return strconv.Quote(one.pool.Driver) }))
	}
	for _, name := range reads.Attributes {
		all = append(all, d.read(attributes, name, devices))
	}
	for _, name := range reads.Capacities {
		all = append(all, d.read(capacities, name, devices))
	}
	if len(all) == 0 {
		all = append(all, numberOf("false for ", devices))
	}
	return all
}

func (d *Diagnosis) read(what kind, name cel.Name, devices []device) Counts {
	counts := valuesOf(what, name, devices)
	counts.absent = fmt.Sprintf("the devices do not have the %s %s", what, name)
	if !counts.has(missingValue) || len(counts.list) > 1 {
		return counts
	}
	if hint := d.missing(what, name, devices[0].pool.Driver); hint != "" {
		counts.absent = hint
	}
	return counts
}

// conjuncts is cached, because each part is evaluated on many nodes.
func (d *Diagnosis) conjuncts(expression string) []string {
	parts, known := d.parts[expression]
	if !known {
		parts = conjuncts(expression)
		d.parts[expression] = parts
	}
	return parts
}

// conjuncts splits an expression at its outermost "&&". If it cannot be split, it is a single part.
func conjuncts(expression string) []string {
	env, err := celgo.NewEnv(celgo.EnableMacroCallTracking(), celgo.OptionalTypes())
	if err != nil {
		return []string{expression}
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return []string{expression}
	}
	var parts []string
	var split func(e ast.Expr)
	split = func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, operand := range e.AsCall().Args() {
				split(operand)
			}
			return
		}
		text, err := parser.Unparse(e, parsed.NativeRep().SourceInfo())
		if err != nil {
			text = expression
		}
		parts = append(parts, text)
	}
	split(parsed.NativeRep().Expr())
	if len(parts) == 1 || slices.Contains(parts, expression) {
		return []string{expression}
	}
	return parts
}
