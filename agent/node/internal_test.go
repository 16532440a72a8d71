// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// TestConcernsProvider has changes that the provider has to see, and changes of the status, which it reports itself.
func TestConcernsProvider(t *testing.T) {
	now := metav1.Now()
	running := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &now }
	deletedAndEnded := func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.Status.Phase = &now, corev1.PodSucceeded }
	for name, test := range map[string]struct {
		was, is *corev1.Pod
		want    bool
	}{
		"nothing":             {running(nil), running(nil), false},
		"the status":          {running(nil), running(func(pod *corev1.Pod) { pod.Status.PodIP = "10.0.0.1" }), false},
		"it ended":            {running(nil), running(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }), false},
		"an image":            {running(nil), running(func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "image:2" }), true},
		"a label":             {running(nil), running(func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} }), true},
		"it is deleted":       {running(nil), running(deleted), true},
		"a shorter grace":     {running(deleted), running(func(pod *corev1.Pod) { deleted(pod); pod.DeletionGracePeriodSeconds = ptr.To(int64(1)) }), true},
		"it ended, deleted":   {running(deleted), running(deletedAndEnded), true},
		"it had ended before": {running(deletedAndEnded), running(func(pod *corev1.Pod) { deletedAndEnded(pod); pod.Status.PodIP = "10.0.0.1" }), false},
	} {
		if got := concernsProvider(test.was, test.is); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestWithOthers: conditions of other writers stay, a condition that the provider writes is there once, and those that are the
// node's to write go if the provider has them no more.
func TestWithOthers(t *testing.T) {
	is := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		is("gate.example.com", corev1.ConditionTrue), is("other.example.com", corev1.ConditionTrue), is(corev1.PodReady, corev1.ConditionTrue),
	}}}
	got := withOthers(pod, &corev1.PodStatus{Conditions: []corev1.PodCondition{is("gate.example.com", corev1.ConditionFalse)}}).Conditions
	if want := []corev1.PodCondition{is("gate.example.com", corev1.ConditionFalse), is("other.example.com", corev1.ConditionTrue)}; !slices.Equal(got, want) {
		t.Errorf("conditions %v, want %v", got, want)
	}
}

// TestEndedStatus: containers that had ended stay as they are, and the others end now.
func TestEndedStatus(t *testing.T) {
	began, before := metav1.NewTime(metav1.Now().Add(-time.Hour)), metav1.Now()
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, FinishedAt: began}}
	pod := &corev1.Pod{Status: corev1.PodStatus{
		Phase:                 corev1.PodRunning,
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: ended, Ready: true}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", ContainerID: "x://1", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}}, {Name: "waits"},
		},
	}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		phase  corev1.PodPhase
		code   int32
	}{"lost": {lostStatus(pod), corev1.PodFailed, exitCodeUnknown}, "deleted": {terminatedStatus(pod), corev1.PodSucceeded, 0}} {
		if is := test.status.InitContainerStatuses[0]; test.status.Phase != test.phase || !is.Ready || *is.State.Terminated != *ended.Terminated {
			t.Errorf("%s: phase %s, init %v", name, test.status.Phase, is)
		}
		for _, is := range test.status.ContainerStatuses {
			how := is.State.Terminated
			if how == nil || is.State.Running != nil || is.Ready || how.ExitCode != test.code || how.Reason != test.status.Reason || how.FinishedAt.Before(&before) || how.ContainerID != is.ContainerID {
				t.Errorf("%s: %s is %v", name, is.Name, is)
			} else if (is.Name == "main") != how.StartedAt.Equal(&began) {
				t.Errorf("%s: %s began at %v", name, is.Name, how.StartedAt)
			}
		}
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].State.Running == nil {
		t.Errorf("the pod has changed: %v", pod.Status)
	}
}

// failingConfigMaps is a lister of ConfigMaps that cannot be read.
type failingConfigMaps struct {
	corelisters.ConfigMapLister
	corelisters.ConfigMapNamespaceLister
}

func (f failingConfigMaps) ConfigMaps(string) corelisters.ConfigMapNamespaceLister { return f }

func (failingConfigMaps) Get(string) (*corev1.ConfigMap, error) { return nil, errors.New("no cache") }

func (failingConfigMaps) List(labels.Selector) ([]*corev1.ConfigMap, error) {
	return nil, errors.New("no cache")
}

// TestReadFails: what cannot be read is told apart from what is not there.
func TestReadFails(t *testing.T) {
	for optional, want := range map[bool]string{false: "Warning FailedToReadMandatoryConfigMap ConfigMap ns/c: no cache", true: "Warning FailedToReadOptionalConfigMap ConfigMap ns/c: no cache"} {
		events := record.NewFakeRecorder(1)
		e := &environment{configMaps: failingConfigMaps{}, recorder: events}
		data, found, err := e.read(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}, kindConfigMap, "c", optional)
		if got := <-events.Events; data != nil || found || (err == nil) != optional || got != want {
			t.Errorf("optional %t: %v, %t, %v, event %q; want %q", optional, data, found, err, got, want)
		}
	}
}

// TestReferencesAreRequired: unless a reference is optional, what it names must be there.
func TestReferencesAreRequired(t *testing.T) {
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	e := &environment{configMaps: corelisters.NewConfigMapLister(none), secrets: corelisters.NewSecretLister(none), recorder: record.NewFakeRecorder(100)}
	for _, optional := range []*bool{nil, new(false), new(true)} {
		for kind, from := range map[string]*corev1.EnvVarSource{
			kindConfigMap: {ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "k", Optional: optional}}, kindSecret: {SecretKeyRef: &corev1.SecretKeySelector{Key: "k", Optional: optional}},
		} {
			_, found, err := e.value(&corev1.Pod{}, &corev1.Container{}, &corev1.EnvVar{Name: "V", ValueFrom: from})
			if found || (err == nil) != ptr.Deref(optional, false) {
				t.Errorf("a missing %s, optional %v: found %t, %v", kind, optional, found, err)
			}
		}
	}
}

// TestIsAnother: providers need not store UIDs. A pod without one is that of its name.
func TestIsAnother(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	for uid, want := range map[types.UID]bool{"": false, "uid": false, "earlier": true} {
		if got := isAnother(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, pod); got != want {
			t.Errorf("a pod with the UID %q is another: %t", uid, got)
		}
	}
}
