package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	priority "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
)

// AddPod implements PreFilterExtensions: it takes back that a pod was removed, or sets the
// devices aside that a pod will need which is nominated to the node.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, status := p.imagining(ctx, state, added.GetPod())
	if c == nil {
		return status
	}
	claims := p.claimsOf(added.GetPod())
	restored, err := c.whatIf.restore(added.GetPod(), claims)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	if !restored {
		p.setAside(ctx, c, claims, nodeInfo)
	}
	return nil
}

// RemovePod implements PreFilterExtensions: the devices come free that the pod alone uses. On the
// node for which others were preempted before, theirs do, too: more pods go only if that is not
// enough.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, status := p.imagining(ctx, state, removed.GetPod())
	if c == nil {
		return status
	}
	c.whatIf.remove(removed.GetPod(), p.claimsOf(removed.GetPod()))
	p.releaseLeaving(c, c.whatIf, pod, nodeInfo)
	return nil
}

// imagining returns the state of the cycle, ready for a what-if, or nil if the other pod
// makes no difference.
func (p *Plugin) imagining(ctx context.Context, state fwk.CycleState, other *corev1.Pod) (*cycle, *fwk.Status) {
	if !p.enabled() {
		return nil, nil
	}
	c, err := cycleOf(state)
	if err != nil {
		return nil, failed(klog.FromContext(ctx), err)
	}
	if c.view == nil || !holdsClaims(other) {
		return nil, nil
	}
	if c.whatIf == nil {
		c.whatIf = c.imagine()
	}
	return c, nil
}

func holdsClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// claimsOf returns the claims of any pod, as far as there are, with the allocation that is
// in flight where none is recorded.
func (p *Plugin) claimsOf(pod *corev1.Pod) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for _, name := range claimNames(pod) {
		claim, err := p.dra.ResourceClaims().Get(pod.Namespace, name)
		if err != nil {
			continue // it holds nothing
		}
		if claim.Status.Allocation == nil {
			if pending := p.dra.ResourceClaims().GetPendingAllocation(claim.UID); pending != nil {
				claim = withAllocation(claim, pending)
			}
		}
		claims = append(claims, claim)
	}
	return claims
}

// claimNames are those that the pod names, and those that were made for it.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}

// setAside charges the devices which a nominated pod will get, once those that are being
// evicted for it are gone. If there are none for it on the node, it does not stand in the
// way.
func (p *Plugin) setAside(ctx context.Context, c *cycle, claims []*resourceapi.ResourceClaim, nodeInfo fwk.NodeInfo) {
	var open []*resourceapi.ResourceClaim
	for _, claim := range claims {
		if claim.Status.Allocation == nil && !c.whatIf.own.Has(claim.UID) {
			open = append(open, claim)
		}
	}
	if len(open) == 0 {
		return
	}
	problem, err := p.core.Compile(open, p.dra.DeviceClasses())
	if err != nil {
		return
	}
	after := c.whatIf.clone()
	after.release(p.leaving(c))
	for _, other := range nodeInfo.GetPods() {
		if pod := other.GetPod(); pod.DeletionTimestamp != nil && holdsClaims(pod) {
			after.remove(pod, p.claimsOf(pod))
		}
	}
	outcome, err := problem.Allocate(p.limit(ctx), c.view.Snapshot, after.ledger.Usage(), nodeInfo.Node())
	assignment, ok := outcome.(*allocator.Assignment)
	if err != nil || !ok {
		return
	}
	results := assignment.Results()
	for i, claim := range open {
		// Devices of pods that are going are held twice until they are gone.
		if err := c.whatIf.ledger.Allocate(withAllocation(claim, &results[i])); err != nil {
			klog.FromContext(ctx).V(5).Info("Claim of nominated pod not set aside", "resourceclaim", klog.KObj(claim), "err", err)
		}
	}
}

// evictionHelps reports whether there would be devices on the node if all pods of lower
// priority were gone.
func (p *Plugin) evictionHelps(ctx context.Context, c *cycle, v *variant, pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
		return false
	}
	var without *whatIf
	freed := 0
	if c.whatIf != nil {
		freed = len(c.whatIf.freed)
	}
	for _, other := range nodeInfo.GetPods() {
		if !holdsClaims(other.GetPod()) || priority.PodPriority(other.GetPod()) >= priority.PodPriority(pod) {
			continue
		}
		if without == nil && c.whatIf != nil {
			without = c.whatIf.clone()
		} else if without == nil {
			without = c.imagine()
		}
		without.remove(other.GetPod(), p.claimsOf(other.GetPod()))
	}
	if without == nil || len(without.freed) == freed {
		return false
	}
	p.releaseLeaving(c, without, pod, nodeInfo)
	found, err := v.problem.Feasible(p.limit(ctx), c.view.Snapshot, without.ledger.Usage(), nodeInfo.Node())
	return err == nil && found.Verdict() == allocator.Satisfiable
}
