// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/internal/fakekubelet"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// twoDevices is a Scanner.
type twoDevices struct{ ctx context.Context }

func (s twoDevices) Scan(n deviceplugin.Notifier) error {
	tree := deviceplugin.NewDeviceTree()
	for _, id := range []string{"0", "1"} {
		tree.AddDevice("gpu", id, deviceplugin.NewDeviceInfo(pluginapi.Healthy, nil, nil, nil, nil, nil))
	}
	n.Notify(tree)
	<-s.ctx.Done()
	return nil
}

const resource = "example.com/gpu"

// start runs a kubelet and a plugin until the test ends, and returns the
// kubelet with the directory of its sockets.
func start(t *testing.T) (context.Context, *fakekubelet.Kubelet, string) {
	t.Helper()
	dir := shortdir.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	kubelet, err := fakekubelet.Start(dir, fakekubelet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	manager := deviceplugin.NewManagerWithOptions("example.com", twoDevices{ctx}, deviceplugin.Options{PluginDir: dir, CDIDir: filepath.Join(dir, "cdi")})
	go func() { ended <- manager.RunWithContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		kubelet.Kill()
		_ = os.RemoveAll(dir)
	})
	if err := kubelet.WaitFor(ctx, resource, func(devices map[string]*pluginapi.Device) bool { return len(devices) == 2 }); err != nil {
		t.Fatal(err)
	}
	return ctx, kubelet, filepath.Join(dir, "pod-resources")
}

func TestList(t *testing.T) {
	ctx, kubelet, socket := start(t)
	if _, err := List(ctx, socket); err == nil || !strings.Contains(err.Error(), "list pod resources: ") || !strings.Contains(err.Error(), socket) {
		t.Errorf("without a socket: %v", err)
	}
	if err := kubelet.ServePodResources(socket); err != nil {
		t.Fatal(err)
	}
	if got, err := List(ctx, socket); err != nil || len(got.InUse) != 0 {
		t.Errorf("nothing is in use: %v (%v)", got, err)
	}
	first, err := kubelet.Allocate(ctx, resource, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.Allocate(ctx, resource, 1); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{resource: {"0", "1"}}
	if got, err := List(ctx, socket); err != nil || !maps.EqualFunc(got.InUse, want, slices.Equal) {
		t.Errorf("in use: %v, want %v (%v)", got, want, err)
	}
	kubelet.Free(first)
	want = map[string][]string{resource: {"1"}}
	if got, err := List(ctx, socket); err != nil || !maps.EqualFunc(got.InUse, want, slices.Equal) {
		t.Errorf("in use: %v, want %v (%v)", got, want, err)
	}
}

func TestFollow(t *testing.T) {
	ctx, kubelet, socket := start(t)
	ctx, cancel := context.WithCancel(ctx)
	reports := make(chan int)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Follow(ctx, socket, 10*time.Millisecond, func(answer *Answer) error {
			select {
			case reports <- len(answer.InUse[resource]):
			case <-ctx.Done():
			}
			return errors.New("an error does not end it")
		})
	}()
	select {
	case <-reports:
		t.Error("there is a report though kubelet does not answer")
	case <-time.After(50 * time.Millisecond):
	}
	if err := kubelet.ServePodResources(socket); err != nil {
		t.Fatal(err)
	}
	if got := <-reports; got != 0 {
		t.Errorf("%d devices are in use", got)
	}
	if _, err := kubelet.Allocate(ctx, resource, 2); err != nil {
		t.Fatal(err)
	}
	for got := <-reports; got != 2; got = <-reports {
		if got != 0 { // asked before
			t.Errorf("%d devices are in use", got)
		}
	}
	cancel()
	<-ended
}

// TestUnexplained has pods of which kubelet reports some devices or none.
func TestUnexplained(t *testing.T) {
	two := corev1.ResourceRequirements{Requests: corev1.ResourceList{resource: apiresource.MustParse("2")}}
	one := corev1.ResourceRequirements{Requests: corev1.ResourceList{resource: apiresource.MustParse("1")}}
	pod := func(init, main corev1.ResourceRequirements, change func(*corev1.Pod)) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Resources: init}}, Containers: []corev1.Container{{Name: "main", Resources: main}},
		}, Status: corev1.PodStatus{StartTime: ptr.To(metav1.Now())}}
		if change != nil {
			change(&pod)
		}
		return pod
	}
	none := corev1.ResourceRequirements{}
	for name, c := range map[string]struct {
		pod      corev1.Pod
		reported int64
		want     bool
	}{
		"nothing wanted":                     {pod(none, none, nil), 0, false},
		"all reported":                       {pod(none, two, nil), 2, false},
		"one not reported":                   {pod(none, two, nil), 1, true},
		"an init container only":             {pod(one, none, nil), 0, true},
		"the init container has one more":    {pod(two, one, nil), 1, true},
		"the init container's is used again": {pod(one, one, nil), 1, false},
		"a claim serves it": {pod(none, two, func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: resource}}}
		}), 0, false},
		"it ended":                            {pod(two, two, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), 0, false},
		"it failed":                           {pod(two, two, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), 0, false},
		"the report is of another pod":        {pod(none, one, func(p *corev1.Pod) { p.Name = "b" }), 1, true},
		"the report is of another pod's name": {pod(none, one, func(p *corev1.Pod) { p.Namespace = "other" }), 1, true},
		"a sidecar's is not reported": {pod(one, one, func(p *corev1.Pod) {
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}), 1, true},
		"a sidecar's and the other are reported": {pod(one, one, func(p *corev1.Pod) {
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}), 2, false},
	} {
		answer := &Answer{pods: map[types.NamespacedName]reported{{Namespace: "ns", Name: "a"}: {pods: 1, count: map[string]int64{resource: c.reported}}}}
		var judge Judge
		got := judge.Unexplained(answer, []corev1.Pod{c.pod})
		if got.Free(resource) == c.want || c.want != strings.HasPrefix(got.Why(resource), "pod ns/") && got[AnyResource] == "" {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestJudgeRemembers has pods be deleted, as kubelet does it and by force.
func TestJudgeRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := corev1.ResourceRequirements{Requests: corev1.ResourceList{resource: apiresource.MustParse("1")}}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "first"}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Resources: one}}, Containers: []corev1.Container{{Name: "main"}},
			TerminationGracePeriodSeconds: ptr.To[int64](60),
		}, Status: corev1.PodStatus{StartTime: ptr.To(metav1.Now())}}
		lists := func(n int) *Answer {
			answer := &Answer{pods: map[types.NamespacedName]reported{}}
			if n > 0 {
				answer.pods[nameOf(&pod)] = reported{pods: n}
			}
			return answer
		}
		var judge Judge
		check := func(what string, answer *Answer, want string, pods ...corev1.Pod) {
			t.Helper()
			why := judge.Unexplained(answer, pods).Why(resource)
			if want == "" && why != "" || !strings.Contains(why, want) {
				t.Errorf("%s: %q, want %q", what, why, want)
			}
		}
		check("an init container runs", lists(1), "is to have 1", pod)
		check("deleted by force", lists(0), "is not known to have ended")
		time.Sleep(time.Hour)
		judge.Silent()
		check("kubelet was down for an hour", lists(0), "is not known to have ended")
		time.Sleep(80 * time.Second)
		check("within its grace period, and more", lists(0), "is not known to have ended")
		time.Sleep(20 * time.Second)
		check("after that", lists(0), "")
		check("kubelet still has it", lists(1), "the API server does not have")
		time.Sleep(100 * time.Second)
		check("it may be ending", lists(0), "a moment ago")
		time.Sleep(50 * time.Second)
		check("it may still be", lists(0), "a moment ago")
		time.Sleep(20 * time.Second)
		check("it ended", lists(0), "")
		other := *pod.DeepCopy()
		other.UID, other.Spec.InitContainers, other.Status.StartTime = "second", nil, nil
		check("another one with its name is to come", lists(1), "not as started", other)
		other.Status.StartTime = ptr.To(metav1.Now())
		check("kubelet has both", lists(2), "the API server does not have", other)
		check("the first may be ending", lists(1), "a moment ago", other)
		time.Sleep(70 * time.Second)
		check("kubelet has the second", lists(1), "", other)

		check("kubelet does not have it for a moment", lists(0), "does not know its pods yet", other)
		check("kubelet has it", lists(1), "", other)
		check("kubelet was restarted", lists(0), "does not know its pods yet", other)
		time.Sleep(40 * time.Second)
		check("and does not know its pods for long", lists(0), "does not know its pods yet", other)
		check("then it does, and ends others", lists(1), "a moment ago", other)
		time.Sleep(70 * time.Second)
		check("it is ready", lists(1), "", other)

		check("it runs again", lists(1), "is to have 1", pod)
		over := *pod.DeepCopy()
		over.Status.Phase = corev1.PodFailed
		over.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		check("somebody says that it failed, and it runs", lists(1), "is to have 1", over)
		over.Status.InitContainerStatuses = nil
		judge.Observe(&over)
		check("kubelet said that it ended before it was deleted", lists(0), "")
	})
}

// A pod wants what it requests until none of its containers runs, whatever its phase says: others than kubelet may set that.
func TestWants(t *testing.T) {
	running := []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, {State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"pending":                       {corev1.PodStatus{Phase: corev1.PodPending}, "ns/a"},
		"succeeded":                     {corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: running[:1]}, ""},
		"failed, and never ran":         {corev1.PodStatus{Phase: corev1.PodFailed}, ""},
		"failed, and a container runs":  {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: running}, "ns/a"},
		"failed, and an init one runs":  {corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: running}, "ns/a"},
		"the scheduler made it a claim": {corev1.PodStatus{ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{RequestMappings: []corev1.ContainerExtendedResourceRequest{{ResourceName: "example.com/gpu"}}}}, ""},
		"only another one of it is one": {corev1.PodStatus{ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{RequestMappings: []corev1.ContainerExtendedResourceRequest{{ResourceName: "example.com/nic"}}}}, "ns/a"},
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Status: test.status}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": apiresource.MustParse("1"), corev1.ResourceCPU: apiresource.MustParse("1")}}}}
		other := *pod.DeepCopy()
		other.Name, other.Spec = "other", corev1.PodSpec{}
		if got := Wants([]corev1.Pod{other, pod}, func(name string) bool { return name == "example.com/gpu" }); got != test.want {
			t.Errorf("%s: %q wants it, want %q", name, got, test.want)
		}
		if got := Wants([]corev1.Pod{pod}, func(name string) bool { return name == "example.com/fpga" }); got != "" {
			t.Errorf("%s: %q wants another one", name, got)
		}
	}
}
