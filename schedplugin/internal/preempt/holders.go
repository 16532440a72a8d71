// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// holders tracks which pods on nodes hold claims, from cycle to cycle. Only nodes with a new generation are
// read. It is safe for concurrent use.
type holders struct {
	mu    sync.Mutex
	nodes map[string]*nodePods
	index *podIndex
	round uint64
	// changed are the UIDs of pods that were added, removed or changed since the last cycle.
	changed []types.UID
	// missing are pods that are no longer on their node in the snapshot, although according to the informer they run.
	missing map[types.UID]*corev1.Pod
}

// nodePods are the pods on one node that hold claims.
type nodePods struct {
	generation int64
	pods       []*corev1.Pod
	round      uint64
}

// podIndex has pods by UID. It belongs to one cycle: the next one changes it.
type podIndex struct {
	mu   sync.RWMutex
	pods map[types.UID]*corev1.Pod
}

// Pod returns a pod, nil if it is on no node or holds no claims.
func (r *podIndex) Pod(uid types.UID) *corev1.Pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pods[uid]
}

// Follow returns the pods on nodes, and which of them changed since the last call. Running reports whether a
// pod that is missing from its node still runs there.
func (r *holders) Follow(nodes []fwk.NodeInfo, running func(*corev1.Pod) bool) (*podIndex, []types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = nil
	if r.index == nil {
		r.nodes, r.index = make(map[string]*nodePods), &podIndex{pods: make(map[types.UID]*corev1.Pod)}
		r.missing = make(map[types.UID]*corev1.Pod)
	}
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	r.round++
	found := 0
	for _, nodeInfo := range nodes {
		if nodeInfo.Node() == nil {
			continue // a node that was deleted before its pods
		}
		name := nodeInfo.Node().Name
		known := r.nodes[name]
		if known == nil || known.generation != nodeInfo.GetGeneration() {
			known = r.replace(name, known, nodeInfo)
		}
		known.round = r.round
		found++
	}
	if len(r.nodes) > found {
		for name, known := range r.nodes {
			if known.round != r.round {
				r.remove(known)
				delete(r.nodes, name)
			}
		}
	}
	maps.DeleteFunc(r.missing, func(_ types.UID, pod *corev1.Pod) bool {
		return r.nodes[pod.Spec.NodeName] == nil || !running(pod)
	})
	return r.index, r.changed
}

// Missing returns the pods that are missing, in no order.
func (r *holders) Missing() []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.missing))
}

func (r *holders) replace(name string, known *nodePods, nodeInfo fwk.NodeInfo) *nodePods {
	r.remove(known)
	known = &nodePods{generation: nodeInfo.GetGeneration()}
	for _, info := range nodeInfo.GetPods() {
		if pod := info.GetPod(); claimstate.HoldsClaims(pod) {
			known.pods = append(known.pods, pod)
			delete(r.missing, pod.UID)
			if r.index.pods[pod.UID] != pod {
				r.index.pods[pod.UID] = pod
				r.changed = append(r.changed, pod.UID)
			}
		}
	}
	r.nodes[name] = known
	return known
}

func (r *holders) remove(known *nodePods) {
	if known == nil {
		return
	}
	for _, pod := range known.pods {
		// The pod may have been found on another node by now.
		if r.index.pods[pod.UID] == pod {
			delete(r.index.pods, pod.UID)
			r.missing[pod.UID] = pod
			r.changed = append(r.changed, pod.UID)
		}
	}
}
