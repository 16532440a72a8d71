// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// cluster is a SharedDRAManager with its own map of claims. While a pod is judged, the allocations of its
// claims are hidden. Only one goroutine may use it at a time.
type cluster struct {
	fwk.SharedDRAManager // slices and classes
	claims               map[types.NamespacedName]*resourceapi.ResourceClaim
	// hidden has the claims of the judged pod as they were before allocation. nil means that the claim did not
	// exist.
	hidden map[types.NamespacedName]*resourceapi.ResourceClaim
	// pending has the claims with the allocations that the plugin signalled, by UID.
	pending map[types.UID]*resourceapi.ResourceClaim
}

var _ fwk.ResourceClaimTracker = &cluster{}

// errNotKept is the error of methods that a plugin calls only after a decision.
var errNotKept = errors.New("a shadow keeps no allocations")

func newCluster() *cluster {
	return &cluster{
		claims:  make(map[types.NamespacedName]*resourceapi.ResourceClaim),
		pending: make(map[types.UID]*resourceapi.ResourceClaim),
	}
}

func nameOf(claim *resourceapi.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// hide shows claims as they were before they were allocated. Those for extended resources did not exist.
// Without arguments, nothing is hidden.
func (c *cluster) hide(claims ...*resourceapi.ResourceClaim) {
	c.hidden = make(map[types.NamespacedName]*resourceapi.ResourceClaim, len(claims))
	for _, claim := range claims {
		if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
			c.hidden[nameOf(claim)] = nil
			continue
		}
		before := claim.DeepCopy()
		before.Status = resourceapi.ResourceClaimStatus{}
		c.hidden[nameOf(claim)] = before
	}
}

// ResourceClaims implements SharedDRAManager.
func (c *cluster) ResourceClaims() fwk.ResourceClaimTracker { return c }

// List implements ResourceClaimTracker.
func (c *cluster) List() ([]*resourceapi.ResourceClaim, error) {
	list := make([]*resourceapi.ResourceClaim, 0, len(c.claims))
	for name, claim := range c.claims {
		if before, hidden := c.hidden[name]; hidden {
			claim = before
		}
		if claim != nil {
			list = append(list, claim)
		}
	}
	return list, nil
}

// Get implements ResourceClaimTracker.
func (c *cluster) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	claim := c.claims[at]
	if before, hidden := c.hidden[at]; hidden {
		claim = before
	}
	if claim == nil {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
	}
	return claim, nil
}

// SignalClaimPendingAllocation implements ResourceClaimTracker.
func (c *cluster) SignalClaimPendingAllocation(claim types.UID, allocated *resourceapi.ResourceClaim) error {
	c.pending[claim] = allocated
	return nil
}

// GetPendingAllocation implements ResourceClaimTracker.
func (c *cluster) GetPendingAllocation(claim types.UID) *resourceapi.AllocationResult {
	if pending := c.pending[claim]; pending != nil {
		return pending.Status.Allocation
	}
	return nil
}

// MaybeRemoveClaimPendingAllocation implements ResourceClaimTracker. Pending claims are never shared.
func (c *cluster) MaybeRemoveClaimPendingAllocation(claim types.UID, _ bool) bool {
	_, found := c.pending[claim]
	delete(c.pending, claim)
	return found
}

// AssumeClaimAfterAPICall implements ResourceClaimTracker.
func (c *cluster) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error { return errNotKept }

// AssumedClaimRestore implements ResourceClaimTracker.
func (c *cluster) AssumedClaimRestore(_, _ string) {}

// ListAllAllocatedDevices implements ResourceClaimTracker. Dray does not call it.
func (c *cluster) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return nil, errNotKept
}

// GatherAllocatedState implements ResourceClaimTracker. Dray does not call it.
func (c *cluster) GatherAllocatedState() (*structured.AllocatedState, error) { return nil, errNotKept }
