package schedplugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
)

// Reserve chooses the devices on the node that was taken. From now on they count as in use
// for all other pods. PreBind makes it known to the API server.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if !p.enabled() {
		return nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName))
	c, err := cycleOf(state)
	if err != nil {
		return failed(logger, err)
	}
	if len(c.unallocated()) == 0 {
		return nil
	}
	group, err := groupCycleOf(state)
	if err != nil {
		return failed(logger, err)
	}
	start := time.Now()
	if err := p.choose(ctx, c, nodeName); err != nil {
		allocations.WithLabelValues("error").Inc()
		return failed(logger, err)
	}
	allocations.WithLabelValues("success").Inc()
	allocationSeconds.Observe(time.Since(start).Seconds())
	for _, claim := range c.unallocated() {
		if claim.pending == nil {
			continue // for extended resources which a device plugin provides on this node
		}
		if err := p.announce(claim); err != nil {
			return failed(logger, err)
		}
		group.reserve(claim.object.UID, pod.UID)
		logger.V(5).Info("Reserved devices", "resourceclaim", klog.KObj(claim.object), "allocation", klog.Format(claim.pending))
	}
	return nil
}

// choose allocates devices on the node. What Filter saw has not changed since, so there are.
func (p *Plugin) choose(ctx context.Context, c *cycle, nodeName string) error {
	suited := c.suits(nodeName)
	if suited == nil {
		return fmt.Errorf("node %s was not found suitable before", nodeName)
	}
	assignment, err := p.assign(ctx, c, suited)
	if err != nil || assignment == nil {
		return err
	}
	results := assignment.Results()
	for i, claim := range suited.variant.claims {
		claim.pending = &results[i]
		if claim.extended {
			claim.object = suited.variant.special
		}
	}
	return nil
}

// assign returns the devices on a node that passed Filter, nil if none have to be allocated.
func (p *Plugin) assign(ctx context.Context, c *cycle, suited *suitable) (*allocator.Assignment, error) {
	if suited.variant.problem == nil {
		return nil, nil
	}
	outcome, err := suited.variant.problem.Allocate(ctx, c.view.Snapshot, c.usage(), suited.node)
	if err != nil {
		return nil, err
	}
	measureSearch(outcome.Stats(), nil)
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		return nil, fmt.Errorf("node %s was suitable before, and now: %v", suited.node.Name, outcome)
	}
	return assignment, nil
}

// announce tells the scheduler of an allocation in flight.
func (p *Plugin) announce(claim *podClaim) error {
	allocated := withAllocation(claim.object, claim.pending)
	if err := p.dra.ResourceClaims().SignalClaimPendingAllocation(claim.object.UID, allocated); err != nil {
		return fmt.Errorf("claim %s: announce its allocation: %w", klog.KObj(claim.object), err)
	}
	claim.inFlight = claim.object.UID
	if claim.unmade() {
		p.model.Pending(allocated)
	} else {
		p.model.Changed(claim.object, false)
	}
	return nil
}

// withAllocation is a claim as it will be. It shares what both have in common.
func withAllocation(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	allocated := *claim
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		allocated.Finalizers = append(slices.Clone(claim.Finalizers), resourceapi.Finalizer)
	}
	allocated.Status.Allocation = allocation
	return &allocated
}

// Unreserve takes back what Reserve and PreBind did. It may be called more than once, and
// without either of them.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	if !p.enabled() {
		return
	}
	c, err := cycleOf(state)
	if err != nil {
		return
	}
	group, err := groupCycleOf(state)
	if err != nil {
		return
	}
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName)))
	for _, claim := range c.claims {
		p.recall(claim, group)
		if claim.extended {
			p.unmake(ctx, claim)
		} else if claim.object.Status.Allocation != nil && resourceclaim.IsReservedForPod(pod, claim.object, false) {
			// A reservation for the group is left alone: other pods of it may rely on it.
			p.unreserve(ctx, claim.object, pod.UID)
		}
	}
}

// recall ends an allocation in flight, unless other pods of the group share it.
func (p *Plugin) recall(claim *podClaim, group *groupCycle) {
	if claim.inFlight == "" {
		return
	}
	uid := claim.inFlight
	claim.inFlight, claim.pending = "", nil
	tracker := p.dra.ResourceClaims()
	if tracker.MaybeRemoveClaimPendingAllocation(uid, false) {
		group.landed(uid)
		if claim.object.Status.Allocation != nil {
			return // PreBind wrote it: it holds devices until it is deallocated
		}
		tracker.AssumedClaimRestore(claim.object.Namespace, claim.object.Name)
		p.model.Changed(claim.object, false)
	}
}

// unreserve removes a consumer from status.reservedFor. A failure is not the end: the pod's
// next cycle finds the claim reserved for it, and the resource claim controller removes
// consumers which are gone.
func (p *Plugin) unreserve(ctx context.Context, claim *resourceapi.ResourceClaim, consumer types.UID) bool {
	// A strategic merge patch removes one entry without knowing the others.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, claim.UID, consumer)
	_, err := p.client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reservation could not be removed", "resourceclaim", klog.KObj(claim))
	}
	return err == nil
}
