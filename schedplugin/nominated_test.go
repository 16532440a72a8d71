// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
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

// A handle without a queue is recognised. A panic for another reason is passed on.
func TestQueuesAreRecognised(t *testing.T) {
	of := func(handle fwk.Handle) *Plugin {
		p := &Plugin{handle: handle}
		p.queueExists = sync.OnceValue(p.hasQueue)
		return p
	}
	if pods := of(queueless{}).nominatedTo("a"); pods != nil {
		t.Errorf("pods %v of no queue", pods)
	}
	of(queueless{}).activate(klog.Background(), podWith("p")) // does nothing
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

// class is what the scheduler knows of a class.
func (w *world) class(name string) *resourceapi.DeviceClass {
	w.t.Helper()
	class, err := w.dra.DeviceClasses().Get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return class
}

// Devices are set aside for what a nominated pod asks for by the present form of its class.
func TestNominatedPodsAskByThePresentClass(t *testing.T) {
	class := gpuClass()
	class.Name, class.Spec.ExtendedResourceName = "changing", nil
	nominated := gpuClaim("nominated", 1)
	nominated.Spec.Devices.Requests[0].Exactly.DeviceClassName = class.Name
	w := newWorld(t, setting{objects: []runtime.Object{gpuClass(), class, gpus("a", 1), gpuClaim("wanted", 1), nominated}})
	info := running(w, "a")
	beside := func() *fwk.Status {
		a := w.attempt(podWith("p", "wanted"))
		expect(t, a.preFilter(), fwk.Success, "")
		expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(podWith("n", "nominated")), info), fwk.Success, "")
		return a.filter(0)
	}
	if status := beside(); status.IsSuccess() {
		t.Error("the device of a nominated pod was given away")
	}
	class = class.DeepCopy()
	class.ResourceVersion = w.class(class.Name).ResourceVersion
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}}}
	if _, err := w.client.ResourceV1().DeviceClasses().Update(w.ctx, class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if len(w.class(class.Name).Spec.Selectors) == 0 {
			return errors.New("the class is not known as it is")
		}
		return nil
	})
	expect(t, beside(), fwk.Success, "")
}
