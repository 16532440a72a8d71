// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// parseRequest reads: request name [class=] [count=] [mode=] [admin=no] clauses,
// or the alternatives below it, each one: option name [class=] ...
func parseRequest(b block) (resourceapi.DeviceRequest, error) {
	w := b.words()
	w.next()
	name, err := w.operand("request")
	if err != nil {
		return resourceapi.DeviceRequest{}, err
	}
	request := resourceapi.DeviceRequest{Name: name}
	options, err := parseOptions(b)
	switch {
	case err != nil:
	case len(options) == 0:
		request.Exactly, err = parseExactly(b, w)
	case w.peek() != "":
		err = errors.New("a request with options takes nothing else")
	default:
		request.FirstAvailable = options
	}
	return request, within("request "+name, err)
}

func parseOptions(b block) ([]resourceapi.DeviceSubRequest, error) {
	children, err := b.children()
	if err != nil {
		return nil, err
	}
	var options []resourceapi.DeviceSubRequest
	for _, child := range children {
		if child.words().next() != "option" {
			continue
		}
		option, err := parseOption(child)
		if err != nil {
			return nil, at(child.line, err)
		}
		options = append(options, option)
	}
	if len(options) != 0 && len(options) != len(children) {
		return nil, errors.New("options and clauses do not mix")
	}
	return options, nil
}

func parseOption(b block) (resourceapi.DeviceSubRequest, error) {
	w := b.words()
	w.next()
	name, err := w.operand("option")
	if err != nil {
		return resourceapi.DeviceSubRequest{}, err
	}
	exactly, err := parseExactly(b, w)
	if err == nil && exactly.AdminAccess != nil {
		err = errors.New("options have no admin access")
	}
	if err != nil {
		return resourceapi.DeviceSubRequest{}, within("option "+name, err)
	}
	return resourceapi.DeviceSubRequest{
		Name:              name,
		DeviceClassName:   exactly.DeviceClassName,
		Selectors:         exactly.Selectors,
		AllocationMode:    exactly.AllocationMode,
		Count:             exactly.Count,
		Tolerations:       exactly.Tolerations,
		Capacity:          exactly.Capacity,
		DerivedAttributes: exactly.DerivedAttributes,
	}, nil
}

func parseExactly(b block, w *words) (*resourceapi.ExactDeviceRequest, error) {
	exactly := &resourceapi.ExactDeviceRequest{AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	if err := w.pairs(func(key, value string) error { return requestField(exactly, key, value) }); err != nil {
		return nil, err
	}
	err := b.clauses(w, func(clause string, w *words) error {
		return within(clause, requestClause(exactly, clause, w))
	})
	return exactly, err
}

func requestField(exactly *resourceapi.ExactDeviceRequest, key, value string) (err error) {
	switch key {
	case "class":
		exactly.DeviceClassName, err = unquote(value)
	case "count":
		exactly.Count, err = parseInt(value)
	case "mode":
		value, err = unquote(value)
		exactly.AllocationMode = resourceapi.DeviceAllocationMode(value)
	case "admin":
		if value != "no" {
			return errors.New(`expected "no"; write "admin" to ask for admin access`)
		}
		exactly.AdminAccess = new(false)
	default:
		err = errors.New("unknown field")
	}
	return err
}

func requestClause(exactly *resourceapi.ExactDeviceRequest, clause string, w *words) error {
	switch clause {
	case "all":
		exactly.AllocationMode, exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	case "admin":
		exactly.AdminAccess = new(true)
	case "where":
		selector, err := parseSelector(w)
		exactly.Selectors = append(exactly.Selectors, selector)
		return err
	case "tolerate":
		toleration, err := parseToleration(w)
		exactly.Tolerations = append(exactly.Tolerations, toleration)
		return err
	case "capacity":
		requests, err := parseRequested(w)
		exactly.Capacity = &resourceapi.CapacityRequirements{Requests: requests}
		return err
	case "derive":
		derived, err := parseDerived(w)
		exactly.DerivedAttributes = append(exactly.DerivedAttributes, derived)
		return err
	default:
		return errors.New("unknown clause")
	}
	return nil
}

// parseDerived reads: name := expression, up to the end of the line.
func parseDerived(w *words) (resourceapi.DeviceDerivedAttribute, error) {
	name, assign := w.next(), w.next()
	derived := resourceapi.DeviceDerivedAttribute{Name: resourceapi.FullyQualifiedName(name), Expression: w.rest()}
	if assign != ":=" || derived.Expression == "" {
		return derived, fmt.Errorf("expected name := expression")
	}
	return derived, nil
}

func writeRequest(request *resourceapi.DeviceRequest) []string {
	header := "request " + quote(request.Name)
	if request.Exactly != nil {
		return writeExactly(header, request.Exactly)
	}
	lines := []string{header}
	for i := range request.FirstAvailable {
		sub := &request.FirstAvailable[i]
		lines = append(lines, indented(writeExactly("option "+quote(sub.Name), &resourceapi.ExactDeviceRequest{
			DeviceClassName:   sub.DeviceClassName,
			Selectors:         sub.Selectors,
			AllocationMode:    sub.AllocationMode,
			Count:             sub.Count,
			Tolerations:       sub.Tolerations,
			Capacity:          sub.Capacity,
			DerivedAttributes: sub.DerivedAttributes,
		}))...)
	}
	return lines
}

func writeExactly(header string, exactly *resourceapi.ExactDeviceRequest) []string {
	if exactly.DeviceClassName != "" {
		header += " class=" + quote(exactly.DeviceClassName)
	}
	header += writeMode(exactly)
	var lines []string
	for _, toleration := range exactly.Tolerations {
		lines = append(lines, "tolerate "+writeToleration(toleration))
	}
	if exactly.Capacity != nil {
		lines = append(lines, "capacity"+writeRequested(exactly.Capacity.Requests))
	}
	for _, derived := range exactly.DerivedAttributes {
		lines = append(lines, "derive "+string(derived.Name)+" := "+derived.Expression)
	}
	lines = append(lines, writeSelectors(exactly.Selectors)...)
	if len(lines) == 1 {
		return []string{header + " " + lines[0]}
	}
	return append([]string{header}, indented(lines)...)
}

func writeMode(exactly *resourceapi.ExactDeviceRequest) string {
	var text string
	all := exactly.AllocationMode == resourceapi.DeviceAllocationModeAll && exactly.Count == 0
	switch {
	case all:
	case exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount:
		text = " mode=" + string(exactly.AllocationMode) + " count=" + formatInt(exactly.Count)
	case exactly.Count != 1:
		text = " count=" + formatInt(exactly.Count)
	}
	admin := exactly.AdminAccess
	if admin != nil && !*admin {
		text += " admin=no"
	}
	if all {
		text += " all"
	}
	if admin != nil && *admin {
		text += " admin"
	}
	return text
}
