// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// nodeState is all that decides which devices nominated pods get on a node.
type nodeState struct {
	node *corev1.Node
	// pools are the pools that reach the node.
	pools []pools.Pool
	// now and settled are what is in use of the pools, with and without claims that nobody needs any more.
	now, settled []pools.PoolUsage
	// terminating are pods that are being deleted, and their claims. Devices that only these use are going to
	// be free, too.
	terminating []*corev1.Pod
	claims      []*resourceapi.ResourceClaim
	// sharesOwn is set if the pod being scheduled shares one of these claims. It keeps the devices then, so
	// that other pods see another state.
	sharesOwn bool
}

func nodeStateOf(at *target) *nodeState {
	view, settled, nodeInfo := at.View, at.settled(), at.Node
	s := &nodeState{node: nodeInfo.Node()}
	for reached := range view.PoolsOf(s.node) {
		s.pools = append(s.pools, reached.Pool())
		s.now, s.settled = append(s.now, view.State.Pool(reached.Pool())), append(s.settled, settled.Pool(reached.Pool()))
	}
	for _, other := range nodeInfo.GetPods() {
		if pod := other.GetPod(); terminatingWithClaims(pod) {
			claims := at.ClaimsOf(pod)
			s.terminating, s.claims, s.sharesOwn = append(s.terminating, pod), append(s.claims, claims...), s.sharesOwn || at.owns(claims)
		}
	}
	return s
}

func terminatingWithClaims(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && claimstate.HoldsClaims(pod)
}

// same reports whether the node is in the same state, apart from the pools that reach it.
func (s *nodeState) same(at *target) bool {
	view, settled, nodeInfo := at.View, at.settled(), at.Node
	if s.sharesOwn || s.node != nodeInfo.Node() {
		return false
	}
	for i, pool := range s.pools {
		if view.State.Pool(pool) != s.now[i] || settled.Pool(pool) != s.settled[i] {
			return false
		}
	}
	found, used := 0, 0
	for _, other := range nodeInfo.GetPods() {
		pod := other.GetPod()
		if !terminatingWithClaims(pod) {
			continue
		}
		if found == len(s.terminating) || s.terminating[found] != pod {
			return false
		}
		claims := at.ClaimsOf(pod)
		if rest := s.claims[used:]; len(claims) > len(rest) || !slices.Equal(claims, rest[:len(claims)]) || at.owns(claims) {
			return false
		}
		found, used = found+1, used+len(claims)
	}
	return found == len(s.terminating) && used == len(s.claims)
}

// samePools reports whether the same pools reach the node, unchanged.
func (s *nodeState) samePools(view *model.View) bool {
	at := 0
	for reached := range view.PoolsOf(s.node) {
		if at == len(s.pools) || s.pools[at] != reached.Pool() {
			return false
		}
		at++
	}
	return at == len(s.pools)
}
