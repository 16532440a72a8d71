// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// Solution is a satisfiable Answer with its problem and node.
type Solution struct {
	Compiled *claims.Compiled
	Features eligibility.Features
	View     cluster.NodeView
	Finding  *Finding
	// ShareID names shares. Nil numbers them from 1.
	ShareID func() types.UID
}

// pick is a Choice with its objects.
type pick struct {
	*claims.Alternative
	pool   *pool.Pool
	device *pool.Device
	index  pool.DeviceIndex
	class  *resourceapi.DeviceClass
	filled []Filled
}

func (p *pick) id() pool.DeviceID { return p.pool.DeviceID(p.index) }

// pickBuffer is large enough for the picks of most problems.
const pickBuffer = 8

// picks appends the choices of the answer, by claim, request and slot.
func (s *Solution) picks(to []pick) []pick {
	for _, at := range s.Finding.Choices {
		pool, i := DeviceAt(s.View.Pools, at.Place)
		alt := s.Compiled.Alternatives[at.Alternative]
		to = append(to, pick{alt, pool, &pool.Devices[i], i, alt.Offers[at.Offer].Class, at.Filled})
	}
	return to
}

// DeviceAt returns the pool and the index of the device with a Choice.Place.
func DeviceAt(views []*pool.View, place int32) (*pool.Pool, pool.DeviceIndex) {
	at := int(place)
	for _, pv := range views {
		if at < len(pv.Here) {
			return pv.Pool, pv.Here[at]
		}
		at -= len(pv.Here)
	}
	panic("a place beyond the devices of the node")
}

// Each visits the choices in order, without building results.
func (s *Solution) Each(visit func(claim int, request, class string, device pool.DeviceID)) {
	for _, p := range s.picks(nil) {
		visit(p.Claim, p.Name, p.class.Name, p.id())
	}
}

// Results returns what the API server would hold in status.allocation of each claim, in order.
// Configurations and tolerations are those of the input: read-only.
func (s *Solution) Results() []resourceapi.AllocationResult {
	next := s.shareIDs()
	var buffer [pickBuffer]pick
	picks := s.picks(buffer[:0])
	results, devices, selector := s.memory(picks)
	for i := range picks {
		devices = append(devices, s.result(&picks[i], next))
	}
	first, picked := 0, s.Finding.Picked
	for c := range results {
		end := first
		for end < len(picks) && picks[end].Claim == c {
			end++
		}
		if end > first {
			results[c].Devices.Results = devices[first:end:end]
		}
		results[c].Devices.Config = s.config(&s.Compiled.Claims[c], picked)
		picked = picked[len(s.Compiled.Claims[c].Requests):]
		results[c].NodeSelector = s.nodeSelector(picks[first:end], selector)
		first = end
	}
	return results
}

// memory allocates the results and all their devices. For one claim with one device that is local to its node,
// as most pods have, it is one allocation with the node selector. Otherwise the selector is nil.
func (s *Solution) memory(picks []pick) ([]resourceapi.AllocationResult, []resourceapi.DeviceRequestAllocationResult, *nodeNamed) {
	if len(s.Compiled.Claims) == 1 && len(picks) == 1 && picks[0].device.Plain {
		made := new(struct {
			results  [1]resourceapi.AllocationResult
			devices  [1]resourceapi.DeviceRequestAllocationResult
			selector nodeNamed
		})
		return made.results[:], made.devices[:0], &made.selector
	}
	return make([]resourceapi.AllocationResult, len(s.Compiled.Claims)), make([]resourceapi.DeviceRequestAllocationResult, 0, len(picks)), nil
}

func (s *Solution) shareIDs() func() types.UID {
	if s.ShareID != nil {
		return s.ShareID
	}
	n := 0
	return func() types.UID {
		n++
		return types.UID("share-" + strconv.Itoa(n))
	}
}

func (s *Solution) result(p *pick, shareID func() types.UID) resourceapi.DeviceRequestAllocationResult {
	id := p.id()
	result := resourceapi.DeviceRequestAllocationResult{
		Request:     p.Name,
		Driver:      id.Driver,
		Pool:        id.Pool,
		Device:      id.Device,
		Tolerations: p.Tolerations,
	}
	if p.Admin {
		result.AdminAccess = ptr.To(true)
	}
	if p.device.Multiple && s.Features.ConsumableCapacity {
		result.ShareID = ptr.To(shareID())
		result.ConsumedCapacity = eligibility.Consumed(s.Features, p.Capacity, p.device.Shape.Device)
		for _, f := range p.filled {
			result.ConsumedCapacity[f.Capacity] = quantity.Of(f.Amount, p.device.Object.Capacity[f.Capacity].Value.Format)
		}
	}
	if p.device.Plain {
		return result
	}
	result.SkipNodeOperations = p.device.Slice.Object.Spec.SkipNodeOperations
	if s.Features.DeviceBindingAndStatus {
		result.BindingConditions = p.device.Object.BindingConditions
		result.BindingFailureConditions = p.device.Object.BindingFailureConditions
	}
	return result
}

// config lists the configurations of the classes, each class once, and then those of the claim. Configurations
// that do not concern the chosen alternatives are left out.
func (s *Solution) config(claim *claims.Claim, picked []int32) (configs []resourceapi.DeviceAllocationConfiguration) {
	add := func(source resourceapi.AllocationConfigSource, names []string, config resourceapi.DeviceConfiguration) {
		concerned := 0
		for r, request := range claim.Requests {
			if claims.Named(names, request.Name, request.Alternatives[picked[r]].Name) {
				concerned++
			}
		}
		switch {
		case concerned == 0 && len(names) > 0:
			return
		case concerned == len(claim.Requests):
			names = nil // in the API, no names mean all requests
		}
		configs = append(configs, resourceapi.DeviceAllocationConfiguration{Source: source, Requests: names, DeviceConfiguration: config})
	}
	for _, of := range s.served(claim.Requests, picked) {
		for _, config := range of.class.Spec.Config {
			add(resourceapi.AllocationConfigSourceClass, slices.Clone(of.requests), config.DeviceConfiguration)
		}
	}
	for _, own := range claim.Object.Spec.Devices.Config {
		add(resourceapi.AllocationConfigSourceClaim, own.Requests, own.DeviceConfiguration)
	}
	return configs
}

// served is a class with configurations, and the requests for which it was chosen.
type served struct {
	class    *resourceapi.DeviceClass
	requests []string
}

// served lists the classes of the chosen alternatives. If an alternative has several classes, only those that a
// chosen device serves by are listed.
func (s *Solution) served(requests []claims.Request, picked []int32) (all []served) {
	for r := range requests {
		alt := requests[r].Alternatives[picked[r]]
		for o, offer := range alt.Offers {
			if len(offer.Class.Spec.Config) == 0 || len(alt.Offers) > 1 && !slices.ContainsFunc(s.Finding.Choices, func(c Choice) bool {
				return c.Alternative == alt.ID && int(c.Offer) == o
			}) {
				continue
			}
			at := slices.IndexFunc(all, func(known served) bool { return known.class.Name == offer.Class.Name })
			if at < 0 {
				at = len(all)
				all = append(all, served{class: offer.Class})
			}
			if !slices.Contains(all[at].requests, alt.Name) {
				all[at].requests = append(all[at].requests, alt.Name)
			}
		}
	}
	return all
}
