// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// Nominated is Nomination, computed once per cycle. A pod in its first attempt has no victims, so the queue,
// which has to be asked for each node, is not asked.
func (c *Cycle) Nominated() fwk.NodeInfo {
	c.nominationOnce.Do(func() {
		if c.of.Tried(c.Pod.UID) || c.Grouped || c.Pod.Status.NominatedNodeName != "" {
			c.nomination = c.of.Nomination(c.Pod)
		}
	})
	return c.nomination
}

// Nomination returns the node to which a pod is nominated, nil if there is none. Before the nomination is in
// the API server, only the scheduling queue has it.
func (p *Preemption) Nomination(pod *corev1.Pod) fwk.NodeInfo {
	nodes := p.Snapshot().NodeInfos()
	if name := pod.Status.NominatedNodeName; name != "" {
		if nodeInfo, err := nodes.Get(name); err == nil {
			return nodeInfo
		}
		return nil // the node was deleted
	}
	list, err := nodes.List()
	if err != nil {
		return nil
	}
	for _, nodeInfo := range list {
		if nodeInfo.Node() == nil {
			continue
		}
		for _, nominated := range p.NominatedTo(nodeInfo.Node().Name) {
			if nominated.GetPod().UID == pod.UID {
				return nodeInfo
			}
		}
	}
	return nil
}

// setAside sets aside the devices which a nominated pod will get.
func (c *Cycle) setAside(ctx context.Context, pod *corev1.Pod, nodeInfo fwk.NodeInfo) error {
	var buffer [4]*resourceapi.ResourceClaim
	open := c.appendOpenClaims(buffer[:0], pod)
	if len(open) == 0 {
		return nil
	}
	problem, err := c.of.problems.of(c.of.Allocator, open, c.of.Source.DRA.DeviceClasses())
	if err != nil {
		problem = nil // it gets no devices on any node, so none are set aside
	}
	return c.of.asides.SetAside(c.whatIf, &target{
		View: c.view, Settled: c.Settled(), Node: nodeInfo, Own: c.Own(), ClaimsOf: c.of.Source.Of, Problem: problem,
		Allocate: func(claims []*resourceapi.ResourceClaim, usage *pools.State) []*resourceapi.ResourceClaim {
			if problem == nil {
				return nil
			}
			found, err := problem.Feasible(ctx, usage, nodeInfo.Node())
			if err != nil {
				return nil
			}
			return WithDevices(claims, found)
		},
	}, pod.UID, open)
}

// appendOpenClaims appends the claims of a nominated pod that are not allocated yet, except those that it
// shares with the pod of the cycle.
func (c *Cycle) appendOpenClaims(list []*resourceapi.ResourceClaim, pod *corev1.Pod) []*resourceapi.ResourceClaim {
	tracker := c.of.Source.DRA.ResourceClaims()
	for name := range resourceclaim.PodClaims(pod) {
		claim, err := tracker.Get(pod.Namespace, name)
		if err == nil && claim.Status.Allocation == nil && !c.Own().Has(claim.UID) && tracker.GetPendingAllocation(claim.UID) == nil {
			list = append(list, claim)
		}
	}
	return list
}

// WithDevices returns claims with the devices that were found for them, nil if there are none.
func WithDevices(claims []*resourceapi.ResourceClaim, found allocator.Feasibility) []*resourceapi.ResourceClaim {
	if found.Verdict() != allocator.Satisfiable {
		return nil
	}
	results := found.Results()
	allocated := make([]*resourceapi.ResourceClaim, len(claims))
	for i, claim := range claims {
		allocated[i] = claimstate.WithAllocation(claim, &results[i])
	}
	return allocated
}

// problems caches the compiled claims of nominated pods, which are needed in the cycles of all other pods.
// The specs of claims are immutable.
type problems struct {
	once  sync.Once
	known *lru.Cache
}

// maxProblems is the number of cached problems.
const maxProblems = 10_000

// compiled is a problem with the DeviceClasses that it was compiled with.
type compiled struct {
	problem *allocator.Problem
	classes map[string]*resourceapi.DeviceClass
}

func (k *problems) of(core *allocator.Allocator, claims []*resourceapi.ResourceClaim, classes fwk.DeviceClassLister) (*allocator.Problem, error) {
	k.once.Do(func() { k.known = lru.New(maxProblems) })
	key := string(claims[0].UID)
	for _, claim := range claims[1:] {
		key += " " + string(claim.UID)
	}
	if found, ok := k.known.Get(key); ok && found.(*compiled).current(classes) {
		return found.(*compiled).problem, nil
	}
	asked := &recordingClasses{DeviceClassLister: classes, asked: make(map[string]*resourceapi.DeviceClass)}
	problem, err := core.Compile(claims, asked)
	if err != nil {
		return nil, err
	}
	k.known.Add(key, &compiled{problem: problem, classes: asked.asked})
	return problem, nil
}

// current reports whether the DeviceClasses are still the same.
func (k *compiled) current(classes fwk.DeviceClassLister) bool {
	for name, known := range k.classes {
		if class, err := classes.Get(name); err != nil || class != known {
			return false
		}
	}
	return true
}

// recordingClasses records which DeviceClasses were read.
type recordingClasses struct {
	fwk.DeviceClassLister
	asked map[string]*resourceapi.DeviceClass
}

func (r *recordingClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	class, err := r.DeviceClassLister.Get(name)
	if err == nil {
		r.asked[name] = class
	}
	return class, err
}
