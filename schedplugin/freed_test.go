// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/resource"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// deaf is a handle of which the plugin gets no event of claims. It stands for one that gets them late: the queue has a
// handler of its own, and on a busy machine it may be ahead.
type deaf struct{ fwk.Handle }

func (d deaf) SharedInformerFactory() informers.SharedInformerFactory {
	return deafFactory{d.Handle.SharedInformerFactory()}
}

type deafFactory struct {
	informers.SharedInformerFactory
}

func (d deafFactory) Resource() resource.Interface {
	return deafGroup{d.SharedInformerFactory.Resource()}
}

type deafGroup struct{ resource.Interface }

func (d deafGroup) V1() resourceinformers.Interface { return deafVersion{d.Interface.V1()} }

type deafVersion struct{ resourceinformers.Interface }

func (d deafVersion) ResourceClaims() resourceinformers.TypedResourceClaimInformer {
	return deafClaims{d.Interface.ResourceClaims()}
}

type deafClaims struct {
	resourceinformers.TypedResourceClaimInformer
}

func (d deafClaims) Informer() cache.SharedIndexInformer {
	return deafInformer{d.TypedResourceClaimInformer.Informer()}
}

type deafInformer struct{ cache.SharedIndexInformer }

func (deafInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// deallocate takes the devices from a claim, and waits until the manager knows. The plugin has not looked since.
func (w *world) deallocate(name string) {
	w.t.Helper()
	claim := w.claim(name).DeepCopy()
	claim.Status = resourceapi.ResourceClaimStatus{}
	if _, err := w.client.ResourceV1().ResourceClaims("default").UpdateStatus(w.ctx, claim, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, func() error {
		known, err := w.dra.ResourceClaims().Get("default", name)
		if err == nil && known.Status.Allocation != nil {
			err = fmt.Errorf("claim %s is allocated", name)
		}
		return err
	})
}

// A pod that was refused devices which came free since is tried again.
func TestRefusedDevicesCameFree(t *testing.T) {
	for freed, activated := range map[string][]string{"holder": {"p"}, "idle": nil} {
		w := newWorld(t, setting{objects: []runtime.Object{
			node("a"), gpuClass(), gpus("a", 1), held(gpuClaim("holder", 1), "a", "gpu-0"), gpuClaim("idle", 1), gpuClaim("wanted", 1),
		}})
		a := w.attempt(podWith("p", "wanted"))
		expect(t, a.preFilter(), fwk.Success, "")
		if status := a.filter(0); status.IsSuccess() {
			t.Fatal("the device is in use, and the node suits")
		}
		w.deallocate(freed)
		_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
		expect(t, status, fwk.Unschedulable, "")
		if !slices.Equal(w.activated, activated) {
			t.Errorf("claim %s is deallocated, and pods %q are tried again, want %q", freed, w.activated, activated)
		}
		if placed, status := w.attempt(a.pod).place(); (placed == "a") != (activated != nil) {
			t.Errorf("claim %s is deallocated, and the next attempt ends on node %q: %v", freed, placed, status)
		}
	}
}

// gate holds up the scheduler at the attempt of a pod.
type gate struct {
	*Plugin
	name          string
	reached, open chan struct{}
}

func (g *gate) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Name == g.name {
		close(g.reached)
		<-g.open
	}
	return g.Plugin.PreFilter(ctx, state, pod, nodes)
}

// A device comes free while a pod that wants it is the next to be tried. The queue asks for no hint then, and the plugin may
// not have got the event. The pod is tried once more.
func TestDeviceComesFreeBeforeAnAttempt(t *testing.T) {
	client := fake.NewClientset(roomy("a"), gpuClass(), gpus("a", 1), held(gpuClaim("holder", 1), "a", "gpu-0"), gpuClaim("early", 1), gpuClaim("late", 1))
	g := &gate{name: "busy", reached: make(chan struct{}), open: make(chan struct{})}
	r, err := newSchedulerWith(t, dray, client, func(ctx context.Context, args runtime.Object, handle fwk.Handle) (plugin fwk.Plugin, err error) {
		plugin, err = New(ctx, args, deaf{handle})
		g.Plugin, _ = plugin.(*Plugin)
		return g, err
	})
	r.must(err)
	r.run()
	r.create(podWith("early", "early"))
	r.waitForRejection("early") // the plugin has read all claims
	r.must(client.CoreV1().Pods("default").Delete(r.ctx, "early", metav1.DeleteOptions{}))
	r.create(podWith("busy"))
	<-g.reached
	r.create(podWith("late", "late"))
	eventually(t, func() error {
		if pods, summary := r.sched.SchedulingQueue.PendingPods(); len(pods) != 1 {
			return fmt.Errorf("pod late is not in the queue, or pod early is: %s", summary)
		}
		return nil
	})
	if !r.deallocated("holder") {
		t.Fatal("the claim cannot be deallocated")
	}
	eventually(t, func() error {
		claim, err := r.handle.SharedDRAManager().ResourceClaims().Get("default", "holder")
		if err == nil && claim.Status.Allocation != nil {
			err = errors.New("the scheduler does not know that the device is free")
		}
		return err
	})
	close(g.open)
	r.waitFor(time.Minute, "late")
}

// The queue tries a group again though nothing has happened, so that nothing has to be done for one that missed an event.
func TestGroupsAreTriedAgainByTheQueue(t *testing.T) {
	r, pods := gangRig(t, 3, append(parts("a"), roomy("a"))...)
	r.run()
	r.create(pods...)
	r.waitForRejection("member-0")
	tried := r.attemptsOf("member-0")
	eventually(t, func() error {
		if now := r.attemptsOf("member-0"); now < tried+10 {
			return fmt.Errorf("the group was tried %d times, and %d times later", tried, now)
		}
		return nil
	})
}
