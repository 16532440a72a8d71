package schedplugin

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
)

// Reasons are short, name no node, and say what is missing.
func TestReasons(t *testing.T) {
	tainted := gpus("d", 2)
	tainted.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	incomplete := gpus("e", 2)
	incomplete.Spec.Pool.ResourceSliceCount = 2
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), node("b"), node("c"), node("d"), node("e"), node("f"), gpuClass(), gpus("b", 1), gpus("c", 4), gpus("f", 5), tainted, incomplete,
		gpuClaim("wanted", 2), gpuClaim("other", 1), held(gpuClaim("busy", 3), "c", "gpu-0", "gpu-1", "gpu-3"),
		held(gpuClaim("full", 5), "f", "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"),
	}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	for i, want := range []string{
		"request gpus wants 2 devices: the node has none",
		"request gpus wants 2 devices: the node has fewer",
		"request gpus wants 2 devices: too few left (the others: in use)",
		"request gpus wants 2 devices: too few left (the others: tainted)",
		"request gpus wants 2 devices: the node has none; it has incomplete pools",
		"request gpus wants 2 devices: too few left (the others: in use)",
	} {
		expect(t, a.filter(i), fwk.UnschedulableAndUnresolvable, want)
	}
	a = w.attempt(podWith("p", "wanted", "other"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "claim wanted: request gpus wants 2 devices: the node has none")
}

// What hinders is one thing if there would be enough without it.
func TestHindrances(t *testing.T) {
	rejected := func(reason allocator.RejectionReason, devices int) allocator.Rejection {
		return allocator.Rejection{Reason: reason, Devices: devices}
	}
	use, taint := allocator.RejectedByUse, allocator.RejectedByTaint
	for _, test := range []struct {
		report allocator.RequestReport
		want   string
	}{
		{allocator.RequestReport{Needed: 4, Reachable: 8, Candidates: 3, Rejections: []allocator.Rejection{rejected(taint, 2), rejected(use, 3)}},
			"request r wants 4 devices: too few left (the others: in use)"},
		{allocator.RequestReport{Needed: 4, Reachable: 8, Candidates: 1, Rejections: []allocator.Rejection{rejected(use, 2), rejected(taint, 5)}},
			"request r wants 4 devices: too few left (the others: tainted)"},
		{allocator.RequestReport{Needed: 4, Reachable: 4, Rejections: []allocator.Rejection{rejected(taint, 1), rejected(taint, 1), rejected(use, 2)}},
			"request r wants 4 devices: too few left (the others: in use, tainted)"},
		{allocator.RequestReport{Needed: 1, Reachable: 1, Rejections: []allocator.Rejection{rejected(use, 1)}},
			"request r wants 1 device: none left (in use)"},
		{allocator.RequestReport{All: true, Needed: 2, Reachable: 4, Candidates: 1, Rejections: []allocator.Rejection{rejected(use, 1)}},
			"request r wants all devices: not all can be had (in use)"},
		{allocator.RequestReport{All: true, Reachable: 4, Rejections: []allocator.Rejection{rejected(allocator.RejectedBySelector, 4)}},
			"request r wants all devices: none matches"},
		{allocator.RequestReport{Needed: 2, Reachable: 4, Candidates: 3}, "request r wants 2 devices: not that many can be had together"},
	} {
		test.report.Request = "r"
		if got := wants(test.report); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// Reasons for several things at once name them, and no figures.
func TestConflicts(t *testing.T) {
	v := &variant{claims: make([]*podClaim, 1)}
	core := []allocator.CoreItem{{Request: "gpu"}, {Request: "nic"}, {Constraint: "matchAttribute numa"}}
	if got, want := v.conflict(core), "request gpu, request nic and matchAttribute numa cannot be had together"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := v.conflict(core[2:]), "matchAttribute numa cannot be met"; got != want {
		t.Errorf("%q, want %q", got, want)
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

func TestNotesAreCut(t *testing.T) {
	long := strings.Repeat("a line of the explanation…\n", 100)
	got := cut(long)
	if len(got) > maxNote || !strings.HasSuffix(got, "…\n…") || !strings.HasPrefix(long, strings.TrimSuffix(got, "\n…")) {
		t.Errorf("cut to %d: %q", len(got), got[len(got)-30:])
	}
	if got := cut("short"); got != "short" {
		t.Errorf("cut to %q", got)
	}
}

// A node with bad devices, or on which the search is given up, is that node's problem.
func TestOtherNodesMayDo(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), node("b"), gpuClass(), gpus("a", 1), modelled(gpus("b", 1)), selecting(gpuClaim("wanted", 1)),
	}})
	a := w.attempt(podWith("p", "wanted"))
	placed, status := a.place()
	expect(t, status, fwk.Success, "")
	if placed != "b" {
		t.Errorf("placed on %q", placed)
	}
	if reason := a.filter(0).Message(); !strings.Contains(reason, "no such key") || strings.Contains(reason, "gpu-0") {
		t.Errorf("the reason does not tell what is wrong: %s", reason)
	}
	budget := int64(1)
	w = newWorld(t, setting{args: &DrayArgs{FilterBudget: &budget}, objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 8), gpuClaim("wanted", 8)}})
	a = w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "the search for devices was given up after as many steps as it may take")
}

func modelled(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	model := "H100"
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
	}
	return slice
}

func selecting(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["gpu.example.com"].model == "H100"`,
	}}}
	return claim
}

// Reasons are remembered from pod to pod, and name what each of them calls its own.
func TestReasonsAreRemembered(t *testing.T) {
	renamed := gpuClaim("renamed", 5)
	renamed.Spec.Devices.Requests[0].Name = "accelerators"
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 4), gpuClaim("first", 5), gpuClaim("second", 5), renamed}})
	for claim, want := range map[string]string{
		"first":   "request gpus wants 5 devices: the node has fewer",
		"second":  "request gpus wants 5 devices: the node has fewer",
		"renamed": "request accelerators wants 5 devices: the node has fewer",
	} {
		a := w.attempt(podWith(claim, claim))
		expect(t, a.preFilter(), fwk.Success, "")
		expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, want)
	}
	if n := w.plugin.reasons.known.Len(); n != 2 {
		t.Errorf("%d reasons are remembered, want one for each name of the request", n)
	}
}

// A recorder keeps each new note, though the pod did not change.
func TestNotesAreEventsOfTheirOwn(t *testing.T) {
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "scheduler")
	pod, n := podWith("p"), newNotes()
	for _, note := range []string{"one", "one", "two", "one"} {
		if count := n.next(pod.UID, note); count > 0 {
			recorder.Eventf(regarding(pod, count), nil, corev1.EventTypeWarning, "DevicesUnavailable", "Scheduling", "%s", note)
		}
	}
	var list *eventsv1.EventList
	deadline := time.Now().Add(10 * time.Second)
	for list == nil || len(list.Items) < 3 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
		var err error
		if list, err = client.EventsV1().Events(pod.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(list.Items) != 3 {
		t.Errorf("%d events, want 3", len(list.Items))
	}
	for _, event := range list.Items {
		if event.Series != nil || event.Regarding.UID != pod.UID {
			t.Errorf("event %q is a series, or not about the pod", event.Note)
		}
	}
}
