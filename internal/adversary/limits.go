package adversary

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

const (
	maxDevices = 32
	maxClaims  = 3
	// maxWanted is how many devices a claim may ask for by exact counts.
	maxWanted = resourceapi.AllocationResultsMaxSize
)

// withinLimits tells whether a case is still one that the API and this package allow.
func withinLimits(c *alloctest.Case) bool {
	return devicesOf(c) <= maxDevices && len(c.Claims) >= 1 && len(c.Claims) <= maxClaims &&
		!slices.ContainsFunc(c.Slices, sliceTooLarge) && !slices.ContainsFunc(c.Claims, claimTooLarge)
}

func devicesOf(c *alloctest.Case) int {
	n := 0
	for _, slice := range c.Slices {
		n += len(slice.Spec.Devices)
	}
	return n
}

func sliceTooLarge(slice *resourceapi.ResourceSlice) bool {
	return len(slice.Spec.SharedCounters) > resourceapi.ResourceSliceMaxCounterSets ||
		slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool {
			return len(d.Attributes)+len(d.Capacity) > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice ||
				len(d.ConsumesCounters) > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice
		})
}

func claimTooLarge(claim *resourceapi.ResourceClaim) bool {
	devices, wanted := &claim.Spec.Devices, int64(0)
	for i := range devices.Requests {
		r := &devices.Requests[i]
		if len(r.FirstAvailable) > resourceapi.FirstAvailableDeviceRequestMaxSize || len(r.FirstAvailable) == 1 && r.Exactly != nil {
			return true
		}
		wanted += leastWanted(r)
	}
	return len(devices.Requests) == 0 || len(devices.Requests) > resourceapi.DeviceRequestsMaxSize ||
		len(devices.Constraints) > resourceapi.DeviceConstraintsMaxSize || wanted > maxWanted
}

func leastWanted(r *resourceapi.DeviceRequest) int64 {
	if r.Exactly != nil {
		return r.Exactly.Count
	}
	least := int64(maxWanted)
	for i := range r.FirstAvailable {
		least = min(least, r.FirstAvailable[i].Count)
	}
	return least
}
