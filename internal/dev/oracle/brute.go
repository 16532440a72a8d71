// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
	e := &enumeration{world: w, found: func([]placement) bool { return true }}
	if !e.wants(c) {
		return false, false
	}
	satisfiable = e.request(0)
	return satisfiable, !e.failed
}

// Taken is a device that a request gets.
type Taken struct {
	Class  string // of the request, or of the alternative that is taken
	Admin  bool
	Driver string
	Device *resourceapi.Device
	// Consumed is what a share takes of the capacities, nil for a device that is not shared.
	Consumed map[resourceapi.QualifiedName]resource.Quantity
}

// Every calls a function with each correct answer to a case, whichever alternatives it takes. It is not ok if the case is too big for
// that, or if anything in it is an error. What the function gets is only lent.
func Every(c *alloctest.Case, visit func([]Taken)) (ok bool) {
	w, err := newWorld(c)
	if err != nil {
		return false
	}
	e := &enumeration{world: w}
	e.found = func(placed []placement) bool {
		list := make([]Taken, len(placed))
		for i, p := range placed {
			list[i] = Taken{Class: p.want.class.Name, Admin: p.want.adminAccess(), Driver: p.device.id.driver, Device: p.device.api}
			if w.shared(p.device) {
				list[i].Consumed = make(map[resourceapi.QualifiedName]resource.Quantity)
				for name := range p.device.api.Capacity {
					list[i].Consumed[name] = w.consumed(p.device, p.want, name)
				}
			}
		}
		visit(list)
		return false
	}
	if !e.wants(c) {
		return false
	}
	e.request(0)
	return !e.failed
}

type enumeration struct {
	world *world
	// found is told each answer, and returns whether that will do.
	found    func([]placement) bool
	requests [][]*want // of all claims
	placed   []placement
	looked   int
	failed   bool
}

// wants lists the requests of all claims, and reports whether they can be understood.
func (e *enumeration) wants(c *alloctest.Case) bool {
	for i := range c.Claims {
		requests, err := wants(c, i)
		if err != nil {
			return false
		}
		e.requests = append(e.requests, requests...)
	}
	return true
}

// request tries all ways to serve the requests from the given one on.
func (e *enumeration) request(index int) bool {
	if index == len(e.requests) {
		return e.found(e.placed)
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
