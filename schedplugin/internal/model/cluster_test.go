// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// cluster is a SharedDRAManager in memory. Methods which a Model does not call are missing.
type cluster struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	slices  []*resourceapi.ResourceSlice
	claims  map[string]*resourceapi.ResourceClaim
	pending map[types.UID]*resourceapi.AllocationResult
	version int
	// listed counts lists of claims, of which the first so many fail.
	listed, failing int
}

func (c *cluster) ResourceClaims() fwk.ResourceClaimTracker { return c }
func (c *cluster) ResourceSlices() fwk.ResourceSliceLister  { return c }
func (c *cluster) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return c.slices, nil
}

func (c *cluster) List() ([]*resourceapi.ResourceClaim, error) {
	if c.listed++; c.listed <= c.failing {
		return nil, errors.New("injected")
	}
	var list []*resourceapi.ResourceClaim
	for _, claim := range c.claims {
		list = append(list, claim)
	}
	return list, nil
}

func (c *cluster) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if claim := c.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, fmt.Errorf("claim %s not found", name)
}

func (c *cluster) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	return c.pending[uid]
}

// put stores a claim with the device it holds, if any, as an object of its own.
func (c *cluster) put(name string, uid types.UID, device string) *resourceapi.ResourceClaim {
	c.version++
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: uid, ResourceVersion: strconv.Itoa(c.version),
	}}
	if device != "" {
		claim.Status.Allocation = allocation(device)
	}
	c.claims[name] = claim
	return claim
}

func allocation(device string) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: "d", Pool: "p", Device: device},
	}}}
}

const devices = 6

func newCluster() *cluster {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "d", NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: strconv.Itoa(i)})
	}
	return &cluster{
		slices:  []*resourceapi.ResourceSlice{slice},
		claims:  make(map[string]*resourceapi.ResourceClaim),
		pending: make(map[types.UID]*resourceapi.AllocationResult),
	}
}

// inUse lists the devices that a view has in use.
func inUse(t *testing.T, m *Model) []string {
	t.Helper()
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	pool := firstPool(view)
	usage := view.State.Pool(pool)
	for device := range pool.Devices() {
		if usage.InUse(device) {
			list = append(list, device.ID().Device)
		}
	}
	return list
}

// expected is the same from scratch.
func (c *cluster) expected() []string {
	held := make(map[string]bool)
	for _, claim := range c.claims {
		if a := claim.Status.Allocation; a != nil {
			held[a.Devices.Results[0].Device] = true
		}
	}
	for _, a := range c.pending {
		held[a.Devices.Results[0].Device] = true
	}
	var list []string
	for name := range held {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// informer delivers no events by itself. It has what the cluster has.
type informer struct {
	cache.SharedInformer
	cluster *cluster
}

func (i informer) GetStore() cache.Store { return store{cluster: i.cluster} }

type store struct {
	cache.Store
	cluster *cluster
}

func (s store) GetByKey(key string) (any, bool, error) {
	_, name, err := cache.SplitMetaNamespaceKey(key)
	claim := s.cluster.claims[name]
	return claim, claim != nil, err
}

func (informer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}
