package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
)

// unsatisfied says why a node does not have the devices.
func (p *Plugin) unsatisfied(ctx context.Context, c *cycle, v *variant, node *corev1.Node) *fwk.Status {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "node", klog.KObj(node))
	outcome, err := v.problem.Allocate(ctx, c.view.Snapshot, c.usage(), node)
	if err != nil {
		return unresolvable(logger, err.Error())
	}
	answer, ok := outcome.(*allocator.Unsatisfiable)
	if !ok {
		return unresolvable(logger, "devices cannot be allocated")
	}
	return unresolvable(logger, answer.Explain().Summary)
}
