package allocator

import "github.com/dray-project/dray/pools"

// Policy decides which of the devices of a node is preferred. The search finds
// the first solution in the order a policy gives, slot by slot.
type Policy interface {
	// Before reports whether a is to be tried before b. Devices of which neither
	// comes before the other stay in first-fit order. It must be a strict weak
	// order and safe for concurrent use.
	Before(a, b Candidate) bool
}

// Candidate is a device as a Policy sees it.
type Candidate struct {
	Device pools.Device
	// Shared is set if shares of the device are allocated already.
	Shared bool
}

// FirstFit prefers devices in pool, slice and device order, as kube-scheduler does.
type FirstFit struct{}

// Before implements Policy.
func (FirstFit) Before(a, b Candidate) bool { return false }
