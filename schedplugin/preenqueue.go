package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreEnqueue keeps a pod from being scheduled while a claim of it is missing, being deleted,
// or somebody else's. The events of EventsToRegister make it look again.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	if !p.enabled() {
		return nil
	}
	if _, err := p.resolve(pod); err != nil {
		return unresolvable(klog.FromContext(ctx), err.Error(), "pod", klog.KObj(pod))
	}
	return nil
}
