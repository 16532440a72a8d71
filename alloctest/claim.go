// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
)

// defaultNamespace is the namespace of claims without namespace=.
const defaultNamespace = "default"

// parseClaim reads: claim name [namespace=] [uid=], with requests, constraints
// and configs below.
func parseClaim(b block) (*resourceapi.ResourceClaim, error) {
	claim, err := claimHeader(b)
	if err != nil {
		return nil, err
	}
	children, err := b.children()
	if err != nil {
		return nil, within("claim "+claim.Name, err)
	}
	for _, child := range children {
		if err := claimPart(claim, child); err != nil {
			return nil, within("claim "+claim.Name, at(child.line, err))
		}
	}
	return claim, nil
}

func claimHeader(b block) (*resourceapi.ResourceClaim, error) {
	w := b.words()
	statement := w.next()
	name, err := w.operand(statement)
	if err != nil {
		return nil, err
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.Namespace = name, defaultNamespace
	err = w.pairs(func(key, value string) (err error) {
		switch key {
		case "namespace":
			claim.Namespace, err = unquote(value)
		case "uid":
			value, err = unquote(value)
			claim.UID = uid(value)
		default:
			err = fmt.Errorf("unknown field")
		}
		return err
	})
	if err == nil && w.peek() != "" {
		err = fmt.Errorf("unexpected %q", w.peek())
	}
	return claim, within(statement+" "+name, err)
}

// extensionPart is the word that begins a line with an extension.Claim.
const extensionPart = "extension"

func claimPart(claim *resourceapi.ResourceClaim, b block) error {
	spec, w := &claim.Spec.Devices, b.words()
	switch part := w.next(); part {
	case "request":
		request, err := parseRequest(b)
		spec.Requests = append(spec.Requests, request)
		return err
	case "match", "distinct":
		constraint, err := parseConstraint(part, w)
		spec.Constraints = append(spec.Constraints, constraint)
		return within(part, err)
	case "config":
		requests, config, err := parseConfig(w)
		spec.Config = append(spec.Config, resourceapi.DeviceClaimConfiguration{Requests: requests, DeviceConfiguration: config})
		return err
	case extensionPart:
		claim.Annotations = map[string]string{extension.Annotation: w.rest()}
		_, err := extension.Of(claim)
		return within(extensionPart, err)
	default:
		return fmt.Errorf("unknown part %q", part)
	}
}

// parseConstraint reads: attribute [requests=a,b/c]
func parseConstraint(kind string, w *words) (c resourceapi.DeviceConstraint, err error) {
	attribute, err := w.operand("attribute")
	if err != nil {
		return c, err
	}
	name := resourceapi.FullyQualifiedName(attribute)
	if kind == "match" {
		c.MatchAttribute = &name
	} else {
		c.DistinctAttribute = &name
	}
	err = w.pairs(func(key, value string) (err error) {
		if key != "requests" {
			return fmt.Errorf("unknown field")
		}
		c.Requests, err = commaList[string](value)
		return err
	})
	if err == nil && w.peek() != "" {
		err = fmt.Errorf("unexpected %q", w.peek())
	}
	return c, err
}

func writeClaim(claim *resourceapi.ResourceClaim) []string {
	lines := append([]string{writeClaimHeader("claim", claim)}, indented(writeParts(&claim.Spec.Devices))...)
	if text, found := claim.Annotations[extension.Annotation]; found {
		lines = append(lines, "  "+extensionPart+" "+text)
	}
	return lines
}

func writeParts(spec *resourceapi.DeviceClaim) []string {
	var lines []string
	for i := range spec.Requests {
		lines = append(lines, writeRequest(&spec.Requests[i])...)
	}
	for _, constraint := range spec.Constraints {
		lines = append(lines, writeConstraint(constraint))
	}
	for _, config := range spec.Config {
		lines = append(lines, "config"+writeConfig(config.Requests, config.DeviceConfiguration))
	}
	return lines
}

func writeClaimHeader(statement string, claim *resourceapi.ResourceClaim) string {
	header := statement + " " + quote(claim.Name)
	if claim.Namespace != defaultNamespace {
		header += " namespace=" + quote(claim.Namespace)
	}
	if claim.UID != "" {
		header += " uid=" + quote(string(claim.UID))
	}
	return header
}

func writeConstraint(c resourceapi.DeviceConstraint) string {
	line := "match"
	switch {
	case c.MatchAttribute != nil:
		line += " " + quote(string(*c.MatchAttribute))
	case c.DistinctAttribute != nil:
		line = "distinct " + quote(string(*c.DistinctAttribute))
	}
	if len(c.Requests) > 0 {
		line += " requests=" + quoteAll(c.Requests)
	}
	return line
}
