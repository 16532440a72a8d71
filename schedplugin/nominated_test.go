// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// queueless is the handle of a simulator. Its methods are those of nil.
type queueless struct{ fwk.Handle }

// faulty panics when it is asked about a node.
type faulty struct{ queueless }

func (f faulty) NominatedPodsForNode(node string) []fwk.PodInfo {
	if node == "faulty" {
		panic("a defect")
	}
	return []fwk.PodInfo{nil}
}

// A handle without a queue is recognised, and a panic for another reason is not taken for one.
func TestQueuesAreRecognised(t *testing.T) {
	of := func(handle fwk.Handle) *Plugin {
		p := &Plugin{handle: handle}
		p.queued = sync.OnceValue(p.hasQueue)
		return p
	}
	if pods := of(queueless{}).nominatedTo("a"); pods != nil {
		t.Errorf("pods %v of no queue", pods)
	}
	p := of(faulty{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic is swallowed")
			}
		}()
		p.nominatedTo("faulty")
	}()
	if len(p.nominatedTo("a")) != 1 {
		t.Error("after a panic, the queue is not asked any more")
	}
}

// A node without an object is no reason to panic, for a pod of a group either.
func TestNodesWithoutObject(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), gpuClaim("wanted", 1)}})
	w.nodes = append(w.nodes, framework.NewNodeInfo())
	a, _ := together(w, framework.NewCycleState(), podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
}
