// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

func registered(t *testing.T, w *world, resource fwk.EventResource) fwk.ClusterEventWithHint {
	t.Helper()
	events, err := w.plugin.EventsToRegister(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if event.Event.Resource == resource {
			return event
		}
	}
	t.Fatalf("no event of %v is registered", resource)
	return fwk.ClusterEventWithHint{}
}

func TestClaimEvents(t *testing.T) {
	pod := podWith("p", "mine")
	mine, other := gpuClaim("mine", 1), gpuClaim("other", 1)
	labelled := mine.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	w := newWorld(t, setting{objects: []runtime.Object{pod, mine, other}})
	heldMine, heldOther := held(gpuClaim("mine", 1), "a", "gpu-0"), held(gpuClaim("other", 1), "a", "gpu-0")
	event := registered(t, w, fwk.ResourceClaim)
	for _, test := range []struct {
		name          string
		before, after *resourceapi.ResourceClaim
		hint          fwk.QueueingHint
		all           bool
		pods          int
	}{
		{"the pod's claim is created", nil, mine, fwk.Queue, false, 1},
		{"another is created", nil, other, fwk.QueueSkip, false, 0},
		{"the pod's claim is allocated", mine, heldMine, fwk.Queue, false, 1},
		{"the pod's claim is labelled", mine, labelled, fwk.QueueSkip, false, 1},
		{"another is allocated", other, heldOther, fwk.QueueSkip, false, 0},
		{"another is deallocated", heldOther, other, fwk.Queue, true, 0},
		{"another is deleted", other, nil, fwk.QueueSkip, false, 0},
		{"another is deleted with devices", heldOther, nil, fwk.Queue, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			hint, err := event.QueueingHintFn(klog.Background(), pod, object(test.before), object(test.after))
			if err != nil || hint != test.hint {
				t.Errorf("hint %v, error %v, want %v", hint, err, test.hint)
			}
			concerned, err := event.PreQueueingHintFn(klog.Background(), object(test.before), object(test.after))
			if err != nil || concerned.AllPods != test.all || len(concerned.Pods) != test.pods {
				t.Errorf("it concerns %+v, error %v, want all: %v, pods: %d", concerned, err, test.all, test.pods)
			}
		})
	}
	unseen := cache.DeletedFinalStateUnknown{Key: "default/other", Obj: other}
	if hint, err := event.QueueingHintFn(klog.Background(), pod, unseen, nil); err != nil || hint != fwk.Queue {
		t.Errorf("deleted unseen: hint %v, error %v", hint, err)
	}
	if _, err := event.QueueingHintFn(klog.Background(), pod, nil, pod); err == nil {
		t.Error("an event of something else is no error")
	}
	if hint, _ := event.QueueingHintFn(klog.Background(), podWith("q", "missing"), nil, mine); hint != fwk.QueueSkip {
		t.Errorf("a pod that misses another claim: hint %v", hint)
	}
}

// object is nil, not a nil claim in an interface.
func object(claim *resourceapi.ResourceClaim) any {
	if claim == nil {
		return nil
	}
	return claim
}

// An update of the annotation of a PodGroup is registered as an event if the feature GenericWorkload is on.
func TestGroupEvents(t *testing.T) {
	if got := registered(t, gangWorld(t), fwk.PodGroup).Event.ActionType; got != fwk.Update {
		t.Errorf("registered for %v of groups", got)
	}
	events, err := newWorld(t, setting{}).plugin.EventsToRegister(t.Context())
	if err != nil || slices.ContainsFunc(events, func(event fwk.ClusterEventWithHint) bool { return event.Event.Resource == fwk.PodGroup }) {
		t.Errorf("without the feature: %v, error %v", events, err)
	}
}

func TestPodEvents(t *testing.T) {
	pod, claim := fromTemplate("p", 1)
	w := newWorld(t, setting{objects: []runtime.Object{claim}})
	hint := registered(t, w, fwk.TargetPod).QueueingHintFn
	for want, updated := range map[fwk.QueueingHint]*corev1.Pod{fwk.Queue: pod, fwk.QueueSkip: podWith("p", "missing")} {
		if got, err := hint(klog.Background(), pod, nil, updated); err != nil || got != want {
			t.Errorf("hint %v, error %v, want %v", got, err, want)
		}
	}
	ofClaims := registered(t, w, fwk.ResourceClaim).QueueingHintFn
	if got, err := ofClaims(klog.Background(), pod, nil, claim); err != nil || got != fwk.Queue {
		t.Errorf("the claim made for the pod is created: hint %v, error %v", got, err)
	}
	if _, err := hint(klog.Background(), pod, nil, claim); err == nil {
		t.Error("an event of something else is no error")
	}
}
