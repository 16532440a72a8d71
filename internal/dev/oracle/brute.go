// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// bruteForceLimit bounds how many partial answers BruteForce looks at.
const bruteForceLimit = 20_000

// BruteForce tells whether a case has a correct answer, by trying all of them. It is
// not ok if the case is too big for that, or if anything in it is an error.
func BruteForce(c *alloctest.Case) (satisfiable, ok bool) {
	w, err := newWorld(c)
	if err != nil {
		return false, false
	}
	e := &enumeration{world: w}
	for i := range c.Claims {
		requests, err := wants(c, i)
		if err != nil {
			return false, false
		}
		e.requests = append(e.requests, requests...)
	}
	satisfiable = e.request(0)
	return satisfiable, !e.failed
}

type enumeration struct {
	world    *world
	requests [][]*want // of all claims
	placed   []placement
	looked   int
	failed   bool
}

// request tries all ways to serve the requests from the given one on.
func (e *enumeration) request(index int) bool {
	if index == len(e.requests) {
		return true
	}
	for _, alternative := range e.requests[index] {
		if alternative.mode == resourceapi.DeviceAllocationModeAll {
			if e.all(alternative, index) {
				return true
			}
			continue
		}
		if e.choose(alternative, alternative.count, e.world.devices, index) {
			return true
		}
	}
	return false
}

func (e *enumeration) all(by *want, index int) bool {
	devices, err := e.world.allOf(by)
	if err != nil {
		e.failed = true
		return false
	}
	if len(devices) == 0 {
		return false
	}
	before := len(e.placed)
	for _, d := range devices {
		e.placed = append(e.placed, placement{by, d})
	}
	found := e.holds() && e.request(index+1)
	e.placed = e.placed[:before]
	return found
}

// choose tries all sets of devices, as many as are left to choose.
func (e *enumeration) choose(by *want, left int64, devices []*device, index int) bool {
	if left == 0 {
		return e.request(index + 1)
	}
	for i, d := range devices {
		if _, err := e.world.matches(d, by); err != nil || e.failed {
			e.failed = true
			return false
		}
		e.placed = append(e.placed, placement{by, d})
		found := e.holds() && e.choose(by, left-1, devices[i+1:], index)
		e.placed = e.placed[:len(e.placed)-1]
		if found {
			return true
		}
	}
	return false
}

func (e *enumeration) holds() bool {
	e.looked++
	if e.looked > bruteForceLimit {
		e.failed = true
	}
	return !e.failed && e.world.check(e.placed) == nil
}
