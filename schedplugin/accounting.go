// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/nodeallocatable"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// Some devices stand for resources of their node, such as CPU (feature DRANodeAllocatableResources). What a
// pod takes of them is added to its requests, and nodes with less are refused.

// accounting remembers of the latest snapshot whether it has such devices. It is safe for concurrent use.
type accounting struct {
	mu       sync.Mutex
	snapshot *pools.Snapshot
	found    bool
}

// snapshotIfAny returns the snapshot if it has such devices, else nil.
func (a *accounting) snapshotIfAny(snapshot *pools.Snapshot) *pools.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.snapshot != snapshot {
		a.snapshot, a.found = snapshot, nodeallocatable.Any(snapshot)
	}
	if !a.found {
		return nil
	}
	return snapshot
}

// extendedNotRecorded is the reason for a restriction: devices for extended resources cannot stand for
// resources of their node. The API server accepts a record only for claims that the pod's spec names.
const extendedNotRecorded = refusal.Short + "devices for extended resources stand for CPU or other resources of their node, which cannot be recorded in the status of a pod"

// account refuses a node with less than what the pod requests and its devices take. Found are the devices of
// the variant's claims, in order.
func (p *Plugin) account(ctx context.Context, state fwk.CycleState, c *cycle, v *variant, pod *corev1.Pod, nodeInfo fwk.NodeInfo, found []resourceapi.AllocationResult) *fwk.Status {
	chosen := make(map[types.UID]*resourceapi.AllocationResult)
	for i, claim := range v.claims {
		chosen[claim.Object.UID] = &found[i]
	}
	var taken []*resourceapi.AllocationResult
	for _, claim := range c.claims {
		allocation := claim.Allocated()
		if allocation == nil {
			allocation = chosen[claim.Object.UID]
		}
		if allocation == nil {
			continue
		}
		if claim.Extended && nodeallocatable.SlicesOf(c.devices, []*resourceapi.AllocationResult{allocation}) != nil {
			reason := c.refusals.Add(v, extendedNotRecorded, extendedNotRecorded, c.countedName(nodeInfo.Node()))
			return refused(ctx, fwk.UnschedulableAndUnresolvable, reason, pod, nodeInfo.Node())
		}
		taken = append(taken, allocation)
	}
	slices := nodeallocatable.SlicesOf(c.devices, taken)
	if slices == nil {
		return nil
	}
	open := c.accounts
	if c.preemption.IsWhatIf() { // accounts of a what-if must not get into the cycle state
		open = func() (*nodeallocatable.Accounts, *fwk.Status) { return p.openAccounts(ctx, c, pod) }
	}
	opened, status := open()
	if status.IsSuccess() {
		status = opened.Check(ctx, nodeInfo, chosen, slices)
	}
	switch {
	case status.Code() == fwk.Error:
		return failed(klog.FromContext(ctx), status.AsError())
	case !status.IsSuccess():
		reason := c.refusals.Add(v, refusal.Short+status.Message(), refusal.Short+"for one of many reasons", c.countedName(nodeInfo.Node()))
		return refused(ctx, status.Code(), reason, pod, nodeInfo.Node())
	case c.preemption.IsWhatIf():
		return nil
	}
	if err := opened.Publish(state); err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	return nil
}

func (p *Plugin) openAccounts(ctx context.Context, c *cycle, pod *corev1.Pod) (*nodeallocatable.Accounts, *fwk.Status) {
	claims := make([]nodeallocatable.Claim, 0, len(c.claims))
	for _, claim := range c.claims {
		if claim.Extended {
			continue
		}
		object := *claim.Object
		switch {
		case object.Status.Allocation == nil:
			// It may be in flight, shared by pods of the group: these count as its consumers.
			object.Status.ReservedFor = c.member.Cycle().Others(object.UID, pod.UID)
		case p.source.ReservedFor(pod, claim.Object):
			object.Status.ReservedFor = nil
		}
		claims = append(claims, nodeallocatable.Claim{Name: claim.Name, Object: &object, Allocation: claim.Allocated()})
	}
	return nodeallocatable.Open(ctx, p.handle, p.features, c.devices, pod, claims)
}

var errNotAccounted = errors.New("its devices are others than those that were accounted for")

// accountedFor checks that the pod gets the devices that Filter accounted for: other pods of the group may
// have taken devices since.
func (c *cycle) accountedFor(feasible *feasibleNode) error {
	if c.devices == nil {
		return nil
	}
	for i, claim := range feasible.variant.claims {
		expected, got := &feasible.found[i], claim.Allocated()
		if got == nil || !slices.EqualFunc(expected.Devices.Results, got.Devices.Results, sameShare) &&
			nodeallocatable.SlicesOf(c.devices, []*resourceapi.AllocationResult{expected, got}) != nil {
			return fmt.Errorf("claim %s: %w", klog.KObj(claim.Object), errNotAccounted)
		}
	}
	return nil
}

func sameShare(a, b resourceapi.DeviceRequestAllocationResult) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device && equality.Semantic.DeepEqual(a.ConsumedCapacity, b.ConsumedCapacity)
}

// record writes into the pod's status what its devices take of the node.
func (p *Plugin) record(ctx context.Context, state fwk.CycleState, c *cycle, pod *corev1.Pod, node string) error {
	if !p.features.EnableDRANodeAllocatableResources {
		return nil
	}
	recorded, err := nodeallocatable.Record(ctx, p.handle.ClientSet(), state, pod, node)
	c.recorded = recorded
	return err
}
