// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"math"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// Class is the kind of answer that an allocator gives.
type Class string

// Errors that concern only the node are a class of their own.
const (
	Satisfiable   Class = "satisfiable"
	Unsatisfiable Class = "unsatisfiable"
	Failed        Class = "error"
	FailedOnNode  Class = "node error"
)

// ClassOf classifies an outcome.
func ClassOf(o alloctest.Outcome) Class {
	switch {
	case o.Err != nil && o.NodeOnly:
		return FailedOnNode
	case o.Err != nil:
		return Failed
	case o.Results != nil:
		return Satisfiable
	}
	return Unsatisfiable
}

// wentBack tells whether upstream's search needed more steps than the first path takes
// that leads to an allocation: it took back at least one device.
func wentBack(c *alloctest.Case, o alloctest.Outcome) bool {
	if o.Err != nil {
		return false
	}
	direct := int64(1)
	for i, claim := range c.Claims {
		direct += int64(1 + len(claim.Spec.Devices.Requests))
		for _, request := range claim.Spec.Devices.Requests {
			if len(request.FirstAvailable) > 0 {
				direct++
			}
			if o.Results == nil {
				direct += fewest(&request)
			}
		}
		if o.Results != nil {
			direct += int64(len(o.Results[i].Devices.Results))
		}
	}
	return o.Steps > direct
}

// fewest is the number of devices that a request takes at least.
func fewest(request *resourceapi.DeviceRequest) int64 {
	atLeast := func(mode resourceapi.DeviceAllocationMode, count int64) int64 {
		if mode == resourceapi.DeviceAllocationModeAll {
			return 1
		}
		return count
	}
	if request.Exactly != nil {
		return atLeast(request.Exactly.AllocationMode, request.Exactly.Count)
	}
	least := int64(math.MaxInt64)
	for _, sub := range request.FirstAvailable {
		least = min(least, atLeast(sub.AllocationMode, sub.Count))
	}
	return least
}
