package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/dray-project/dray/allocator"
)

// Score prefers nodes by the weights of the settings.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	if !p.enabled() || p.settings.weights == (weights{}) {
		return 0, nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	c, err := cycleOf(state)
	if err != nil {
		return 0, failed(logger, err)
	}
	suited := c.suits(nodeInfo.Node().Name)
	if c.idle() || suited == nil {
		return 0, nil
	}
	score, err := p.score(ctx, c, suited)
	if err != nil {
		return 0, failed(logger, err)
	}
	return score, nil
}

func (p *Plugin) score(ctx context.Context, c *cycle, suited *suitable) (int64, error) {
	w := p.settings.weights
	if w.onlyLists() && !c.prioritizes() {
		return 0, nil
	}
	assignment, err := p.assign(ctx, c, suited)
	if err != nil {
		return 0, err
	}
	earned, most := listScore(c, suited.variant, assignment)
	if w.onlyLists() {
		return earned, nil
	}
	var o outlook
	if assignment != nil {
		if o, err = outlookOf(c, suited, assignment); err != nil {
			return 0, err
		}
	}
	sum := w.lists*share(earned, most) + w.packing*o.usage() + w.spreading*(perMille-o.usage()) + w.thrift*o.thrift()
	return sum / (w.lists + w.packing + w.spreading + w.thrift), nil
}

// ScoreExtensions implements ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales scores to the range that the framework expects.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if !p.enabled() {
		return nil
	}
	return helper.DefaultNormalizeScore(fwk.MaxScore, false, scores)
}

// prioritizes reports whether any claim has a prioritized list.
func (c *cycle) prioritizes() bool {
	for _, claim := range c.claims {
		for i := range claim.object.Spec.Devices.Requests {
			if len(claim.object.Spec.Devices.Requests[i].FirstAvailable) > 0 {
				return true
			}
		}
	}
	return false
}

// listScore adds up what the alternatives are worth that were chosen, and what the first ones
// would be.
func listScore(c *cycle, v *variant, assignment *allocator.Assignment) (earned, most int64) {
	count := func(claim *resourceapi.ResourceClaim, chosen map[string]bool) {
		of, best := worth(claim, chosen)
		earned, most = earned+of, most+best
	}
	for _, claim := range c.claims {
		if allocation := claim.allocated(); allocation != nil {
			count(claim.object, requestsOf(allocation))
		}
	}
	if assignment == nil {
		return earned, most
	}
	chosen := make([]map[string]bool, len(v.claims))
	for i := range chosen {
		chosen[i] = make(map[string]bool)
	}
	for _, choice := range assignment.Choices() {
		chosen[choice.Claim][choice.Request] = true
	}
	for i, claim := range v.claims {
		count(claim.object, chosen[i])
	}
	return earned, most
}

func requestsOf(allocation *resourceapi.AllocationResult) map[string]bool {
	requests := make(map[string]bool)
	for i := range allocation.Devices.Results {
		requests[allocation.Devices.Results[i].Request] = true
	}
	return requests
}

// worth is most for the first alternative of each list.
func worth(claim *resourceapi.ResourceClaim, chosen map[string]bool) (earned, most int64) {
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if len(request.FirstAvailable) > 0 {
			most += resourceapi.FirstAvailableDeviceRequestMaxSize
		}
		for rank := range request.FirstAvailable {
			if chosen[resourceclaim.CreateSubRequestRef(request.Name, request.FirstAvailable[rank].Name)] {
				earned += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - rank)
			}
		}
	}
	return earned, most
}
