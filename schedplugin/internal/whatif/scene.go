package whatif

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// scene is all of a node that decides which devices nominated pods get there.
type scene struct {
	node *corev1.Node
	// pools are those that reach the node.
	pools []pools.Pool
	// now and settled are what is in use of them.
	now, settled []pools.PoolUsage
	// ending are the pods that end on their own. Their devices come free, too.
	ending []*corev1.Pod
}

func sceneOf(view *model.View, settled *pools.State, nodeInfo fwk.NodeInfo) *scene {
	s := &scene{node: nodeInfo.Node()}
	for reached := range view.PoolsOf(s.node) {
		s.pools = append(s.pools, reached.Pool())
		s.now, s.settled = append(s.now, view.State.Pool(reached.Pool())), append(s.settled, settled.Pool(reached.Pool()))
	}
	for _, other := range nodeInfo.GetPods() {
		if pod := other.GetPod(); endsWithClaims(pod) {
			s.ending = append(s.ending, pod)
		}
	}
	return s
}

func endsWithClaims(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && claimstate.HoldsClaims(pod)
}

// same reports whether the node is as it was, but for the pools that reach it.
func (s *scene) same(view *model.View, settled *pools.State, nodeInfo fwk.NodeInfo) bool {
	if s.node != nodeInfo.Node() {
		return false
	}
	for i, pool := range s.pools {
		if view.State.Pool(pool) != s.now[i] || settled.Pool(pool) != s.settled[i] {
			return false
		}
	}
	found := 0
	for _, other := range nodeInfo.GetPods() {
		pod := other.GetPod()
		if !endsWithClaims(pod) {
			continue
		}
		if found == len(s.ending) || s.ending[found] != pod {
			return false
		}
		found++
	}
	return found == len(s.ending)
}

// reachedAlike reports whether the same pools reach the node, as they are.
func (s *scene) reachedAlike(view *model.View) bool {
	at := 0
	for reached := range view.PoolsOf(s.node) {
		if at == len(s.pools) || s.pools[at] != reached.Pool() {
			return false
		}
		at++
	}
	return at == len(s.pools)
}
