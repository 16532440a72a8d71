// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// CheckTopology returns an error for an attribute without a domain.
func CheckTopology(attributes []resourceapi.FullyQualifiedName) error {
	for _, attribute := range attributes {
		if domain, id, _ := strings.Cut(string(attribute), "/"); domain == "" || id == "" {
			return fmt.Errorf("topology: attribute %q: want domain/name", attribute)
		}
	}
	return nil
}

// topology adds preferences for each attribute: for all devices of a claim, and then for the devices of each
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

// align adds a preference for the requests of a claim.
func (c *compiler) align(claim int, attribute resourceapi.FullyQualifiedName, requests []Request) {
	if mostDevices(requests) < 2 {
		return
	}
	c.constrain(Constraint{Attribute: attribute, Claim: claim, Preferred: true, Topology: true}, requests)
}

// mostDevices is the largest number of devices of requests, without those with allocationMode All.
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
