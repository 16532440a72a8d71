// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestHoldersAgreeWithAllNodes compares what is known of pods on nodes, of which only those that changed are
// looked at, with a look at all of them. A pod may turn up on a node that is looked at before the one
// where it was, or after it.
func TestHoldersAgreeWithAllNodes(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		var known holders
		infos := make(map[string]*framework.NodeInfo)
		before := make(map[types.UID]*corev1.Pod)
		missing := make(map[types.UID]*corev1.Pod)
		for step := range 60 {
			for range 1 + random.IntN(4) {
				changeNodes(t, random, infos)
			}
			var list []fwk.NodeInfo
			for _, name := range []string{"n3", "n0", "n2", "n1"} {
				if infos[name] != nil {
					list = append(list, infos[name].Snapshot())
				}
			}
			running := func(pod *corev1.Pod) bool { return pod.UID != "p0" }
			index, changed := known.Follow(list, running)

			now := make(map[types.UID]*corev1.Pod)
			for _, pod := range all(infos) {
				if len(pod.Spec.ResourceClaims) > 0 {
					now[pod.UID] = pod
				}
			}
			for i := range 6 {
				uid := types.UID(fmt.Sprint("p", i))
				if index.Pod(uid) != now[uid] {
					t.Fatalf("seed %d, step %d: pod %s is %v, want %v", seed, step, uid, index.Pod(uid), now[uid])
				}
				if before[uid] != now[uid] && !slices.Contains(changed, uid) {
					t.Fatalf("seed %d, step %d: pod %s changed, and is not among %v", seed, step, uid, changed)
				}
				switch {
				case now[uid] != nil:
					delete(missing, uid)
				case before[uid] != nil:
					missing[uid] = before[uid]
				}
				if pod := missing[uid]; pod != nil && (infos[pod.Spec.NodeName] == nil || !running(pod)) {
					delete(missing, uid)
				}
				if got := slices.Contains(known.Missing(), missing[uid]); missing[uid] != nil && !got {
					t.Fatalf("seed %d, step %d: pod %s is gone from node %s while it runs, and is not absent", seed, step, uid, missing[uid].Spec.NodeName)
				}
			}
			if got := len(known.Missing()); got != len(missing) {
				t.Fatalf("seed %d, step %d: %d pods are absent, want %d", seed, step, got, len(missing))
			}
			before = now
		}
	}
}

// changeNodes has a node come or go, or a pod.
func changeNodes(t *testing.T, random *rand.Rand, infos map[string]*framework.NodeInfo) {
	node := fmt.Sprint("n", random.IntN(4))
	info := infos[node]
	switch pod := podOf(fmt.Sprint("p", random.IntN(6)), "claim"); random.IntN(5) {
	case 0:
		info = framework.NewNodeInfo()
		info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		infos[node] = info
	case 1:
		delete(infos, node)
	case 2, 3:
		if info == nil || slices.ContainsFunc(all(infos), func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
			return
		}
		if pod.Spec.NodeName = node; random.IntN(3) == 0 {
			pod.Spec.ResourceClaims = nil
		}
		info.AddPod(pod)
	case 4:
		if info != nil && len(info.GetPods()) > 0 {
			if err := info.RemovePod(ktesting.NewLogger(t, ktesting.NewConfig()), info.GetPods()[0].GetPod()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func all(infos map[string]*framework.NodeInfo) []*corev1.Pod {
	var list []*corev1.Pod
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			list = append(list, pod.GetPod())
		}
	}
	return list
}

// Nodes that were deleted are passed over, whose pods are still there.
func TestNodesThatAreGone(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
	known := framework.NewNodeInfo(pod)
	known.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	running := func(*corev1.Pod) bool { return true }
	var seen holders
	seen.Follow([]fwk.NodeInfo{known, framework.NewNodeInfo()}, running)
	if index, _ := seen.Follow([]fwk.NodeInfo{framework.NewNodeInfo(pod)}, running); index.Pod("p") != nil {
		t.Error("the pod is on its node, which is gone")
	}
}
