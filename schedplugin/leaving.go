package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/dray-project/dray/allocator"
)

// leaving lists the claims that hold devices for nobody any more: all their consumers are
// gone, or going because they were preempted. The resource claim controller frees them.
func (p *Plugin) leaving(c *cycle) []*resourceapi.ResourceClaim {
	c.leavingOnce.Do(func() {
		list, err := p.dra.ResourceClaims().List()
		if err != nil {
			return // nothing is known to come free
		}
		for _, claim := range list {
			if claim.Status.Allocation != nil && p.abandoned(claim) {
				c.leavingClaims = append(c.leavingClaims, claim)
			}
		}
	})
	return c.leavingClaims
}

// abandoned reports whether nobody needs an allocation any more. An idle claim that is not
// being deleted keeps its devices for whoever comes next.
func (p *Plugin) abandoned(claim *resourceapi.ResourceClaim) bool {
	if len(claim.Status.ReservedFor) == 0 {
		return claim.DeletionTimestamp != nil
	}
	for i := range claim.Status.ReservedFor {
		if !p.pods.left(claim.Namespace, &claim.Status.ReservedFor[i]) {
			return false
		}
	}
	return true
}

// left reports whether a consumer of a claim is a pod that is gone, done, or going because
// it was preempted. Pods that end for other reasons may take long.
func (p podsByClaim) left(namespace string, consumer *resourceapi.ResourceClaimConsumerReference) bool {
	if consumer.APIGroup != corev1.GroupName || consumer.Resource != "pods" {
		return false
	}
	object, exists, err := p.indexer.GetByKey(namespace + "/" + consumer.Name)
	if err != nil || !exists {
		return err == nil
	}
	pod, ok := object.(*corev1.Pod)
	return ok && (pod.UID != consumer.UID || done(pod) || preemption.PodTerminatingByPreemption(pod))
}

func done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// awaits reports whether a pod that preempted others only has to wait: the node it is
// nominated to will have its devices as soon as those of pods that left come free. Until
// then nothing on the node shows that they will, as soon as the last of these pods is gone.
func (p *Plugin) awaits(ctx context.Context, c *cycle, pod *corev1.Pod, statuses fwk.NodeToStatusReader) bool {
	if c.view == nil || statuses == nil {
		return false
	}
	nodeInfo := p.nominated(c, pod)
	if nodeInfo == nil || statuses.Get(nodeInfo.Node().Name).Plugin() != Name || len(p.leaving(c)) == 0 {
		return false
	}
	v, reason := p.variantFor(c, pod, nodeInfo)
	if reason != "" || v.problem == nil {
		return false
	}
	after := c.imagine()
	after.release(p.leaving(c))
	found, err := v.problem.Feasible(p.limit(ctx), c.view.Snapshot, after.ledger.Usage(), nodeInfo.Node())
	return err == nil && found.Verdict() == allocator.Satisfiable
}

// nominated is nomination, looked up once per cycle.
func (p *Plugin) nominated(c *cycle, pod *corev1.Pod) fwk.NodeInfo {
	c.nominationOnce.Do(func() { c.nomination = p.nomination(pod) })
	return c.nomination
}

// releaseLeaving frees the devices that come free on the node for which a pod preempted others,
// whether or not it preempts more there.
func (p *Plugin) releaseLeaving(c *cycle, w *whatIf, pod *corev1.Pod, nodeInfo fwk.NodeInfo) {
	if nominated := p.nominated(c, pod); nominated != nil && nominated.Node().Name == nodeInfo.Node().Name {
		w.release(p.leaving(c))
	}
}

// nomination returns the node to which a pod is nominated, nil if there is none. Until the
// API server tells, only the scheduling queue knows.
func (p *Plugin) nomination(pod *corev1.Pod) fwk.NodeInfo {
	nodes := p.handle.SnapshotSharedLister().NodeInfos()
	if name := pod.Status.NominatedNodeName; name != "" {
		if nodeInfo, err := nodes.Get(name); err == nil {
			return nodeInfo
		}
		return nil // it was deleted
	}
	list, err := nodes.List()
	if err != nil {
		return nil
	}
	for _, nodeInfo := range list {
		for _, nominated := range p.handle.NominatedPodsForNode(nodeInfo.Node().Name) {
			if nominated.GetPod().UID == pod.UID {
				return nodeInfo
			}
		}
	}
	return nil
}
