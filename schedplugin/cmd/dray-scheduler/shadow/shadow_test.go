// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/fakeapi"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

const (
	driver = "gpu.example.com"
	// never is a settling time that no test outlasts.
	never = time.Hour
)

// scene is a cluster in memory with a shadow. The test plays the other scheduler.
type scene struct {
	t      *testing.T
	client *fake.Clientset
	shadow *Shadow
}

// withDray is what a profile has in place of the plugin in the tree.
const withDray = "  plugins: {multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Dray}]}}"

func profiles(t *testing.T, plugins string) []config.KubeSchedulerProfile {
	t.Helper()
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
`+plugins), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*config.KubeSchedulerConfiguration).Profiles
}

// shadowing starts a shadow of a cluster with a node of two devices.
func shadowing(t *testing.T, settle time.Duration) *scene {
	t.Helper()
	node := inventory.Node("a", 8)
	node.UID = "a"
	s := &scene{t: t, client: fake.NewClientset(node,
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		inventory.Slice(driver, "a", inventory.GPUs(2, "a100", "80Gi")...))}
	var err error
	if s.shadow, err = New(t.Context(), s.client, profiles(t, withDray), settle); err != nil {
		t.Fatal(err)
	}
	fakeapi.AwaitWatches(t, s.client)
	t.Cleanup(func() {
		for _, action := range s.client.Actions() {
			switch verb := action.GetVerb(); verb {
			case "get", "list", "watch":
			default:
				if action.GetResource().Resource != "pods" && action.GetResource().Resource != "resourceclaims" {
					t.Errorf("the shadow does %s %s", verb, action.GetResource().Resource)
				}
			}
		}
	})
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// await waits until an error is gone.
func (s *scene) await(condition func() error) {
	s.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for err := condition(); err != nil; err = condition() {
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// pod adds a pod with a claim for so many devices, neither of which is scheduled. It returns when the
// shadow knows both: what it compares is what it knows when it gets to know of devices.
func (s *scene) pod(name string, count int64, selectors ...resourceapi.DeviceSelector) *corev1.Pod {
	s.t.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("claim-" + name), ResourceVersion: "1",
	}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Selectors: selectors,
	}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	pod.Spec.SchedulerName = "default-scheduler"
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: ptr.To(name)}}
	_, err := s.client.ResourceV1().ResourceClaims("default").Create(s.t.Context(), claim, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.CoreV1().Pods("default").Create(s.t.Context(), pod, metav1.CreateOptions{})
	s.must(err)
	s.await(func() error {
		_, err := s.shadow.pods.Pods("default").Get(name)
		_, errClaim := s.shadow.cluster.SharedDRAManager.ResourceClaims().Get("default", name)
		return errors.Join(err, errClaim)
	})
	return pod
}

// allocate gives devices of node a to a claim, for the pod of the same name.
func (s *scene) allocate(name string, devices ...string) {
	s.t.Helper()
	claims := s.client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Get(s.t.Context(), name, metav1.GetOptions{})
	s.must(err)
	claim = claim.DeepCopy()
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
	claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: nameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpus", Driver: driver, Pool: "a", Device: device,
		})
	}
	_, err = claims.UpdateStatus(s.t.Context(), claim, metav1.UpdateOptions{})
	s.must(err)
}

func (s *scene) release(name string) {
	s.t.Helper()
	s.must(s.client.ResourceV1().ResourceClaims("default").Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

// refuse says that no node suits a pod.
func (s *scene) refuse(pod *corev1.Pod) {
	s.t.Helper()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	_, err := s.client.CoreV1().Pods("default").UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	s.must(err)
}

// expect waits until outcomes have been counted, and no others.
func (s *scene) expect(want map[Outcome]int) string {
	s.t.Helper()
	var text string
	s.await(func() error {
		report := s.shadow.Report(false)
		counts := make(map[Outcome]int)
		for _, o := range outcomes {
			if n := report.Count(o.Outcome); n > 0 {
				counts[o.Outcome] = n
			}
		}
		if !maps.Equal(counts, want) {
			return fmt.Errorf("outcomes %v, want %v", counts, want)
		}
		text = report.Text(time.Now())
		return nil
	})
	return text
}

func TestSameDevices(t *testing.T) {
	s := shadowing(t, never)
	s.pod("one", 1)
	s.allocate("one", "gpu-0")
	s.expect(map[Outcome]int{SameDevices: 1})
	s.pod("two", 1)
	s.allocate("two", "gpu-1")
	s.expect(map[Outcome]int{SameDevices: 2})
	s.release("one")
	s.pod("three", 1)
	s.allocate("three", "gpu-0")
	text := s.expect(map[Outcome]int{SameDevices: 3})
	if !strings.HasPrefix(text, "3 pods compared in ") || strings.Contains(text, "- pod") {
		t.Errorf("report:\n%s", text)
	}
}

// A device that Dray would not have taken is a difference, once nothing else explains it.
func TestOtherDevices(t *testing.T) {
	s := shadowing(t, time.Millisecond)
	s.pod("one", 1)
	s.allocate("one", "gpu-1")
	text := s.expect(map[Outcome]int{OtherDevices: 1})
	want := "pod default/one on node a: it has [gpu.example.com/a/gpu-1], Dray would take [gpu.example.com/a/gpu-0]"
	if !strings.Contains(text, want) {
		t.Errorf("the report does not say %q:\n%s", want, text)
	}
}

// At the end nothing more can explain it.
func TestOtherDevicesAtTheEnd(t *testing.T) {
	s := shadowing(t, never)
	s.pod("one", 1)
	s.allocate("one", "gpu-1")
	s.await(func() error {
		s.shadow.mu.Lock()
		defer s.shadow.mu.Unlock()
		if len(s.shadow.open) == 0 {
			return errors.New("the difference is not noticed")
		}
		return nil
	})
	if report := s.shadow.Report(true); report.Count(OtherDevices) != 1 || report.Differences() != 1 {
		t.Errorf("report:\n%s", report.Text(time.Now()))
	}
}

// The other scheduler may have known what was not stored yet.
func TestConcurrentAllocation(t *testing.T) {
	s := shadowing(t, never)
	s.pod("one", 1)
	s.pod("two", 1)
	s.allocate("one", "gpu-1") // it was decided second
	s.allocate("two", "gpu-0")
	s.expect(map[Outcome]int{SameDevices: 1, Concurrent: 1})
}

// Nor did it know of a device that has just come free.
func TestConcurrentRelease(t *testing.T) {
	s := shadowing(t, never)
	s.pod("one", 1)
	s.pod("two", 1)
	s.allocate("one", "gpu-0")
	s.expect(map[Outcome]int{SameDevices: 1})
	s.release("one")
	s.allocate("two", "gpu-1")
	s.expect(map[Outcome]int{SameDevices: 1, Concurrent: 1})
}

// A node on which a pod cannot have its devices is refused.
func TestRefused(t *testing.T) {
	s := shadowing(t, never)
	s.pod("one", 1, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "other"`}})
	s.allocate("one", "gpu-0")
	text := s.expect(map[Outcome]int{Refused: 1})
	if want := "Dray refuses it: request gpus wants 1 device"; !strings.Contains(text, want) {
		t.Errorf("the report does not say %q:\n%s", want, text)
	}
}

// A pod that another scheduler finds no node for is looked at by all plugins.
func TestRefusals(t *testing.T) {
	s := shadowing(t, time.Millisecond)
	s.refuse(s.pod("greedy", 3))
	s.expect(map[Outcome]int{SameRefusal: 1})
	s.refuse(s.pod("modest", 2))
	text := s.expect(map[Outcome]int{SameRefusal: 1, Accepted: 1})
	if want := "pod default/modest is unschedulable, Dray finds node a"; !strings.Contains(text, want) {
		t.Errorf("the report does not say %q:\n%s", want, text)
	}
}

// Decisions from before the shadow started are not compared.
func TestThePastIsNotCompared(t *testing.T) {
	s := shadowing(t, never)
	s.pod("one", 1)
	s.allocate("one", "gpu-1")
	second, err := New(t.Context(), s.client, profiles(t, withDray), never)
	s.must(err)
	fakeapi.AwaitWatches(t, s.client)
	third := &scene{t: t, client: s.client, shadow: second}
	third.pod("two", 1)
	third.allocate("two", "gpu-0")
	third.expect(map[Outcome]int{SameDevices: 1})
}

// A scheduler of which a profile does without Dray cannot be compared.
func TestProfileWithoutDray(t *testing.T) {
	_, err := New(t.Context(), fake.NewClientset(), profiles(t, ""), never)
	if err == nil || !strings.Contains(err.Error(), "0 of 1 profiles have the plugin Dray") {
		t.Errorf("error %v", err)
	}
}
