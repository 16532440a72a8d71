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

// Score prefers nodes on which prioritized lists are served with earlier alternatives.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	if !p.enabled() || !p.features.EnableDRAPrioritizedList {
		return 0, nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	c, err := cycleOf(state)
	if err != nil {
		return 0, failed(logger, err)
	}
	if c.idle() {
		return 0, nil
	}
	suited := c.suits(nodeInfo.Node().Name)
	if suited == nil {
		return 0, nil
	}
	assignment, err := p.assign(ctx, c, suited)
	if err != nil {
		return 0, failed(logger, err)
	}
	return scoreOf(c, suited.variant, assignment), nil
}

// ScoreExtensions implements ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales scores to the range that the framework expects.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if !p.enabled() {
		return nil
	}
	return helper.DefaultNormalizeScore(fwk.MaxNodeScore, false, scores)
}

// scoreOf adds up what each alternative is worth that was chosen.
func scoreOf(c *cycle, v *variant, assignment *allocator.Assignment) int64 {
	var score int64
	for _, claim := range c.claims {
		if allocation := claim.allocated(); allocation != nil {
			score += worth(claim.object, requestsOf(allocation))
		}
	}
	if assignment == nil {
		return score
	}
	chosen := make([]map[string]bool, len(v.claims))
	for i := range chosen {
		chosen[i] = make(map[string]bool)
	}
	for _, choice := range assignment.Choices() {
		chosen[choice.Claim][choice.Request] = true
	}
	for i, claim := range v.claims {
		score += worth(claim.object, chosen[i])
	}
	return score
}

func requestsOf(allocation *resourceapi.AllocationResult) map[string]bool {
	requests := make(map[string]bool)
	for i := range allocation.Devices.Results {
		requests[allocation.Devices.Results[i].Request] = true
	}
	return requests
}

// worth is most for the first alternative of a list.
func worth(claim *resourceapi.ResourceClaim, chosen map[string]bool) int64 {
	var score int64
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		for rank := range request.FirstAvailable {
			if chosen[resourceclaim.CreateSubRequestRef(request.Name, request.FirstAvailable[rank].Name)] {
				score += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - rank)
			}
		}
	}
	return score
}
