// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) {
	if script := os.Getenv(scriptVariable); script != "" {
		os.Exit(playScript(script))
	}
	leakcheck.Main(m)
}

// TestPrepare follows one claim from a pod that starts to a pod that ended.
func TestPrepare(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"), claim("two", []string{gpus, nics}, "a"))
	gpu, nic := n.driver(t, gpus), n.driver(t, nics)
	a := pod("a", "one", "two")
	n.prepare(t, a)
	same(t, "calls of the GPU driver", gpu.Taken(), "prepare one two")
	same(t, "calls of the NIC driver", nic.Taken(), "prepare two")
	devices, err := n.preparer.CDIDevices(a)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "CDI devices", devices["main"],
		"gpu.example.com/claim=one-0", "gpu.example.com/claim=one-1",
		"gpu.example.com/claim=two-0", "gpu.example.com/claim=two-1",
		"nic.example.com/claim=two-0", "nic.example.com/claim=two-1")
	n.prepare(t, a)
	same(t, "calls when it is prepared", slices.Concat(gpu.Taken(), nic.Taken()))

	n.release(t, a)
	same(t, "calls at the end", slices.Concat(gpu.Taken(), nic.Taken()), "unprepare one two", "unprepare two")
	n.release(t, a)
	same(t, "calls after the end", slices.Concat(gpu.Taken(), nic.Taken()))
	if _, err := n.preparer.CDIDevices(a); err == nil {
		t.Error("a pod that was released has CDI devices")
	}
	if known := n.preparer.records.all(func(*claimRecord) bool { return true }); len(known) > 0 {
		t.Errorf("left: %v", known)
	}
}

// TestPodsWithoutDevices: no claim, a claim that was not generated, and a claim for nothing.
func TestPodsWithoutDevices(t *testing.T) {
	n := newNode(t, claim("nothing", nil, "a"))
	generatedNone := pod("a")
	generatedNone.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("template")}}
	generatedNone.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "x"}}
	generatedNone.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x"}}
	for name, p := range map[string]*v1.Pod{"no claim": pod("a"), "none generated": generatedNone, "for nothing": pod("a", "nothing")} {
		n.prepare(t, p)
		if devices, err := n.preparer.CDIDevices(p); err != nil || len(devices) > 0 {
			t.Errorf("%s: %v, %v", name, devices, err)
		}
		n.release(t, p)
	}
}

// TestShared: a claim of two pods is prepared once, and unprepared after the second.
func TestShared(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a", "b"))
	gpu := n.driver(t, gpus)
	n.prepare(t, pod("a", "one"))
	n.prepare(t, pod("b", "one"))
	n.release(t, pod("a"))
	same(t, "calls while a pod runs", gpu.Taken(), "prepare one")
	if devices, err := n.preparer.CDIDevices(pod("b", "one")); err != nil || len(devices["main"]) != 2 {
		t.Errorf("devices of the other pod: %v, %v", devices, err)
	}
	n.release(t, pod("b"))
	same(t, "calls after the last pod", gpu.Taken(), "unprepare one")
}

// TestTwoNames: a claim that a pod names twice is prepared once.
func TestTwoNames(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus)
	p := pod("a", "one")
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "again", ResourceClaimName: ptr.To("one")})
	n.prepare(t, p)
	n.release(t, p)
	same(t, "calls", gpu.Taken(), "prepare one", "unprepare one")
}

// TestNotReady: no driver is called for claims that the pod cannot use, and there is no
// Event: the scheduler or the controller of claims is at work.
func TestNotReady(t *testing.T) {
	pending, other := claim("one", []string{gpus}, "a"), claim("one", []string{gpus}, "b")
	pending.Status.Allocation = nil
	former := claim("one", []string{gpus}, "a")
	former.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "former-a", Controller: ptr.To(true)}}
	generated := pod("a")
	generated.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("template")}}
	generated.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: ptr.To("one")}}
	for name, test := range map[string]struct {
		claim *resourceapi.ResourceClaim
		pod   *v1.Pod
		want  string
	}{
		"not allocated":             {pending, pod("a", "one"), "claim ns/one: not allocated"},
		"reserved for another":      {other, pod("a", "one"), "claim ns/one: not reserved for pod ns/a (a)"},
		"generated for a former":    {former, generated, "claim ns/one: "},
		"there is none of the name": {claim("two", nil), pod("a", "one"), `claim ns/one: resourceclaims.resource.k8s.io "one" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, test.claim)
			gpu := n.driver(t, gpus)
			err := n.preparer.Prepare(t.Context(), test.pod)
			contains(t, err, test.want)
			if notReady := new(NotReadyError); errors.As(err, &notReady) == strings.Contains(name, "none") {
				t.Errorf("error %T", err)
			}
			same(t, "calls", gpu.Taken())
			if len(n.recorder.Events) > 0 {
				t.Errorf("event %s", <-n.recorder.Events)
			}
		})
	}
}

// TestFailures: what a driver does not do is an Event that names it, other drivers and
// other claims are not kept back, and what was not done is tried again.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*driver)
		mend  func(*driver)
		want  string
		again string
	}{
		"refused": {
			func(d *driver) { d.Refuse["prepare one"] = "no such device" }, func(d *driver) { delete(d.Refuse, "prepare one") },
			"claim ns/one: driver gpu.example.com: no such device", "prepare one",
		},
		"left out": {
			func(d *driver) { d.Omit = "one" }, func(d *driver) { d.Omit = "" },
			"claim ns/one: driver gpu.example.com: its answer leaves the claim out", "prepare one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, claim("one", []string{gpus}, "a"), claim("two", []string{gpus, nics}, "a"))
			gpu, nic := n.driver(t, gpus, test.spoil), n.driver(t, nics)
			a := pod("a", "one", "two")
			err := n.preparer.Prepare(t.Context(), a)
			contains(t, err, test.want)
			if event := <-n.recorder.Events; !strings.Contains(event, ReasonFailed+" "+test.want) {
				t.Errorf("event %q", event)
			}
			same(t, "the others", slices.Concat(gpu.Holds(), nic.Holds()), "two", "two")
			if _, err := n.preparer.CDIDevices(a); err == nil {
				t.Error("the pod has devices without all being prepared")
			}
			gpu.Taken()
			gpu.Set(func() { test.mend(gpu) })
			n.prepare(t, a)
			same(t, "calls of the next attempt", gpu.Taken(), test.again)
		})
	}
}

// TestCallFails: what a driver says of a call as a whole is said of each claim, without the words of gRPC.
func TestCallFails(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, func(d *driver) { d.Fail = "out of order" })
	a := pod("a", "one")
	if err := n.preparer.Prepare(t.Context(), a); err == nil || err.Error() != "claim ns/one: driver gpu.example.com: out of order" {
		t.Errorf("error %v", err)
	}
	gpu.Set(func() { gpu.Fail = "" })
	n.prepare(t, a)
}

// TestUnprepareIsRetried in the background, and before the claim is prepared for another pod.
func TestUnprepareIsRetried(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a", "b"), claim("two", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, func(d *driver) { d.Refuse["unprepare one"], d.Refuse["unprepare two"] = "busy", "busy" })
	n.prepare(t, pod("a", "one", "two"))
	contains(t, n.preparer.Release(t.Context(), "a"), "release claims of pod a: claim ns/one: driver gpu.example.com: busy")
	contains(t, n.preparer.Prepare(t.Context(), pod("b", "one")), "claim ns/one: driver gpu.example.com: busy")
	gpu.Set(func() { clear(gpu.Refuse) })
	fakecluster.Eventually(t, "unprepare", func() bool { return len(gpu.Holds()) == 0 })
	n.prepare(t, pod("b", "one"))
	same(t, "prepared", gpu.Holds(), "one")
}

// TestDeviceOfEarlierClaim: after a pod was deleted by force, its device may be allocated to another claim
// before the driver has unprepared it. Then the driver is not asked yet, as long as the device is not shared.
func TestDeviceOfEarlierClaim(t *testing.T) {
	later := claim("two", []string{gpus}, "b")
	later.Status.Allocation.Devices.Results[0].Pool = "one" // the device of claim one
	admin, share := claim("admin", []string{gpus}, "c"), claim("share", []string{gpus}, "d")
	admin.Status.Allocation.Devices.Results[0].Pool, admin.Status.Allocation.Devices.Results[0].AdminAccess = "one", ptr.To(true)
	share.Status.Allocation.Devices.Results[0].Pool, share.Status.Allocation.Devices.Results[0].ShareID = "one", ptr.To(types.UID("s"))
	n := newNode(t, claim("one", []string{gpus}, "a"), later, admin, share)
	gpu := n.driver(t, gpus, func(d *driver) { d.Refuse["unprepare one"] = "busy" })
	n.prepare(t, pod("a", "one"))
	n.prepare(t, pod("c", "admin"))
	n.prepare(t, pod("d", "share"))
	for _, released := range []bool{false, true} {
		if released {
			contains(t, n.preparer.Release(t.Context(), "a"), "busy")
		}
		n.preparer.Stop()
		n.start(t) // the checkpoint has the devices, too
		n.registered(t, gpus)
		err := n.preparer.Prepare(t.Context(), pod("b", "two"))
		contains(t, err, "claim ns/two: device gpu.example.com/one/0 is still prepared for claim ns/one")
		if notReady := new(NotReadyError); !errors.As(err, &notReady) {
			t.Errorf("error %T", err)
		}
	}
	same(t, "prepared", gpu.Holds(), "admin", "one", "share")
	gpu.Set(func() { clear(gpu.Refuse) })
	if err := n.preparer.Await(t.Context(), pod("b", "two")); err != nil {
		t.Fatal(err)
	}
	same(t, "prepared", gpu.Holds(), "admin", "share", "two")
}

// TestAllocatedAnew: a claim of a pod that was deleted by force may be allocated anew for the next pod before it is unprepared.
func TestAllocatedAnew(t *testing.T) {
	one := claim("one", []string{gpus}, "a", "b")
	n := newNode(t, one)
	gpu := n.driver(t, gpus)
	n.prepare(t, pod("a", "one"))
	one.Status.Allocation.Devices.Results[0].Device = "another"
	if _, err := n.client.ResourceV1().ResourceClaims("ns").UpdateStatus(t.Context(), one, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	contains(t, n.preparer.Prepare(t.Context(), pod("b", "one")), "claim ns/one: its earlier devices are still prepared for a pod that was deleted")
	n.release(t, pod("a"))
	n.prepare(t, pod("b", "one"))
	same(t, "calls", gpu.Taken(), "prepare one", "unprepare one", "prepare one")
}

// TestSkippedOperations: a driver is not asked for what the allocation says it need not do.
func TestSkippedOperations(t *testing.T) {
	for name, test := range map[string]struct {
		skip [2][]resourceapi.SkipNodeOperation // of the claim's two devices
		want []string
	}{
		"all of both":       {[2][]resourceapi.SkipNodeOperation{{"*"}, {"*"}}, nil},
		"all of one":        {[2][]resourceapi.SkipNodeOperation{{"*"}, nil}, []string{"prepare one", "unprepare one"}},
		"preparing both":    {[2][]resourceapi.SkipNodeOperation{{"NodePrepareResources"}, {"*"}}, []string{"unprepare one"}},
		"unpreparing both":  {[2][]resourceapi.SkipNodeOperation{{"NodeUnprepareResources"}, {"*"}}, []string{"prepare one"}},
		"different of each": {[2][]resourceapi.SkipNodeOperation{{"NodeUnprepareResources"}, {"NodePrepareResources"}}, []string{"prepare one", "unprepare one"}},
	} {
		t.Run(name, func(t *testing.T) {
			skipping := claim("one", []string{gpus, gpus}, "a")
			for i := range test.skip {
				skipping.Status.Allocation.Devices.Results[i].SkipNodeOperations = test.skip[i]
			}
			n := newNode(t, skipping)
			gpu := n.driver(t, gpus)
			n.prepare(t, pod("a", "one"))
			n.release(t, pod("a"))
			same(t, "calls", gpu.Taken(), test.want...)
			if left := n.preparer.records.all(func(*claimRecord) bool { return true }); len(left) > 0 {
				t.Errorf("left: %v", left[0])
			}
		})
	}
}

// TestConcurrentPods: many pods that share claims come and go at the same time.
func TestConcurrentPods(t *testing.T) {
	var pods []string
	for i := range 16 {
		pods = append(pods, "pod-"+string(rune('a'+i)))
	}
	n := newNode(t, claim("one", []string{gpus}, pods...), claim("two", []string{gpus, nics}, pods...))
	gpu, nic := n.driver(t, gpus), n.driver(t, nics)
	var running sync.WaitGroup
	for i, name := range pods {
		p := pod(name, "one", "two")
		if i%2 == 1 {
			p = pod(name, "two", "one")
		}
		running.Go(func() {
			for range 5 {
				if err := n.preparer.Prepare(t.Context(), p); err != nil {
					t.Error(err)
				}
				if holds := gpu.Holds(); !slices.Equal(holds, []string{"one", "two"}) {
					t.Errorf("while a pod runs: prepared %q", holds)
				}
				if err := n.preparer.Release(t.Context(), p.UID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	same(t, "prepared at the end", slices.Concat(gpu.Holds(), nic.Holds()))
}

// TestWaitForBusyClaim ends with the context of the caller.
func TestWaitForBusyClaim(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	n := newNode(t, claim("one", []string{gpus}, "a", "b"))
	n.driver(t, gpus, func(d *driver) {
		d.During = func(_, at string) {
			if at == "before" {
				close(entered)
				<-leave
			}
		}
	})
	first := make(chan error)
	go func() { first <- n.preparer.Prepare(t.Context(), pod("a", "one")) }()
	<-entered
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	if err := n.preparer.Prepare(ctx, pod("b", "one")); !errors.Is(err, errBoom) {
		t.Errorf("error %v", err)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestAPIErrors are the caller's to retry.
func TestAPIErrors(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus)
	n.client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errBoom })
	if err := n.preparer.Prepare(t.Context(), pod("a", "one")); !errors.Is(err, errBoom) {
		t.Errorf("error %v", err)
	}
	same(t, "calls", gpu.Taken())
}
