// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
)

// With explain: Reasons, no Event is written. The condition of the pod has the reasons.
func TestEventsAreSwitchedOff(t *testing.T) {
	w := newWorld(t, setting{
		objects: []runtime.Object{gpuClass(), gpuClaim("wanted", 2), node("a"), gpus("a", 1)}, args: "explain: Reasons",
	})
	a := w.attempt(podWith("p", "wanted"))
	if _, status := a.place(); !status.IsRejected() {
		t.Fatalf("the pod was not rejected: %v", status)
	}
	_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.Unschedulable, "")
	select {
	case note := <-w.events:
		t.Errorf("an Event was written: %s", note)
	default:
	}
}

// One Event sums up all nodes. It is not repeated while nothing changes.
func TestEventExplains(t *testing.T) {
	objects := []runtime.Object{gpuClass(), gpuClaim("wanted", 2), gpuClaim("other", 1)}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		objects = append(objects, node(name), gpus(name, 1))
	}
	objects = append(objects, node("f"))
	w := newWorld(t, setting{objects: objects})
	attempt := func() {
		a := w.attempt(podWith("p", "wanted"))
		if _, status := a.place(); !status.IsRejected() {
			t.Fatalf("the pod was not rejected: %v", status)
		}
		a.filter(0) // as the scheduler does with a nominated node
		_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
		expect(t, status, fwk.Unschedulable, "")
	}
	attempt()
	note := <-w.events
	for _, want := range []string{
		"DevicesUnavailable", "Pod default/p does not get its devices.",
		"5 nodes (a, b, c, …): this cannot be met:",
		"1 node (f): this cannot be met:", "request gpus",
	} {
		if !strings.Contains(note, want) {
			t.Errorf("the event does not say %q:\n%s", want, note)
		}
	}
	attempt()
	select {
	case note := <-w.events:
		t.Errorf("the event was repeated: %s", note)
	default:
	}
	inUse := []runtime.Object{gpus("f", 2), held(gpuClaim("holder-0", 1), "f", "gpu-0"), held(gpuClaim("holder-1", 1), "f", "gpu-1")}
	for _, object := range inUse {
		if err := w.client.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	attempt()
	if note := <-w.events; !strings.Contains(note, "6 nodes (a, b, c, …): this cannot be met, with the figures of a, which comes closest:") {
		t.Errorf("the event does not say what changed: %s", note)
	}
}

// However often a pod is tried, there is one Event for each kind of reason. Its text stays the
// same while only counts differ.
func TestOneEventForEachKindOfReasons(t *testing.T) {
	objects := []runtime.Object{gpuClass(), gpuClaim("wanted", 2), node("a"), gpus("a", 20)}
	for i := range 19 {
		objects = append(objects, held(gpuClaim(fmt.Sprint("holder-", i), 1), "a", fmt.Sprint("gpu-", i)))
	}
	w := newWorld(t, setting{objects: objects})
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.plugin.handle = recording{w.plugin.handle, broadcaster.NewRecorder(scheme.Scheme, "scheduler")}
	pod := podWith("p", "wanted")
	attempt := func() {
		t.Helper()
		a := w.attempt(pod)
		if _, status := a.place(); !status.IsRejected() {
			t.Fatalf("the pod was not rejected: %v", status)
		}
		_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
		expect(t, status, fwk.Unschedulable, "")
	}
	for i := range 100 {
		// More and more devices come into the cluster, all in use.
		name := fmt.Sprint("extra-", i)
		w.addNode(node(name))
		for _, object := range []runtime.Object{gpus(name, 2), held(gpuClaim("of-"+name, 1), name, "gpu-0"), held(gpuClaim("also-of-"+name, 1), name, "gpu-1")} {
			if err := w.client.Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
		w.settle()
		pod = pod.DeepCopy()
		pod.ResourceVersion = strconv.Itoa(i) // its status was updated
		attempt()
	}
	list := eventsAbout(t, client, 1)
	if list[0].Series != nil || !strings.Contains(list[0].Note, "in use") {
		t.Errorf("event %+v", list[0])
	}
	w.addNode(node("without"))
	attempt()
	if list := eventsAbout(t, client, 2); list[0].Note == list[1].Note {
		t.Errorf("two kinds have the note %q", list[0].Note)
	}
	w.nodes = w.nodes[:len(w.nodes)-1]
	attempt()
	eventually(t, func() error {
		series := 0
		for _, event := range eventsAbout(t, client, 2) {
			if event.Series != nil {
				series++
			}
		}
		if series != 1 {
			return fmt.Errorf("%d events are series, want the one that came again", series)
		}
		return nil
	})
}

// recording is a handle with another recorder.
type recording struct {
	fwk.Handle
	recorder events.EventRecorderLogger
}

func (r recording) EventRecorder() events.EventRecorderLogger { return r.recorder }

// eventsAbout waits for a number of events.
func eventsAbout(t *testing.T, client *fake.Clientset, count int) []eventsv1.Event {
	t.Helper()
	var list *eventsv1.EventList
	eventually(t, func() error {
		var err error
		if list, err = client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{}); err == nil && len(list.Items) != count {
			err = fmt.Errorf("%d events, want %d", len(list.Items), count)
		}
		return err
	})
	return list.Items
}
