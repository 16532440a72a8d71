// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// space is a namespace of a test.
type space struct {
	*testing.T
	name string
}

// newSpace makes a namespace, in which all pods are deleted in the end. Then no claim may be prepared.
func newSpace(t *testing.T) *space {
	t.Helper()
	name := strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-"))
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, _ = client.CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{}) // or its controller does
	s := &space{t, name}
	t.Cleanup(func() {
		if t.Failed() {
			s.describe()
		}
		if err := client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return s
}

// describe logs what Events say.
func (s *space) describe() {
	events, err := client.CoreV1().Events(s.name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		s.Log(err)
		return
	}
	for _, event := range events.Items {
		s.Logf("%s %s: %s %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
	}
}

// create makes the objects of a YAML text.
func (s *space) create(text string) {
	s.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			s.Fatalf("%v in\n%s", err, document)
		}
		switch object := object.(type) {
		case *corev1.Pod:
			offline(&object.Spec)
			_, err = client.CoreV1().Pods(s.name).Create(s.Context(), object, metav1.CreateOptions{})
		case *batchv1.Job:
			offline(&object.Spec.Template.Spec)
			_, err = client.BatchV1().Jobs(s.name).Create(s.Context(), object, metav1.CreateOptions{})
		case *resourceapi.ResourceClaim:
			_, err = client.ResourceV1().ResourceClaims(s.name).Create(s.Context(), object, metav1.CreateOptions{})
		case *resourceapi.ResourceClaimTemplate:
			_, err = client.ResourceV1().ResourceClaimTemplates(s.name).Create(s.Context(), object, metav1.CreateOptions{})
		default:
			err = fmt.Errorf("a %T is not created", object)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
}

// offline gives a pod what all of these tests have: the image that is there, and no token.
func offline(pod *corev1.PodSpec) {
	pod.AutomountServiceAccountToken = ptr.To(false)
	pod.TerminationGracePeriodSeconds = ptr.To(int64(1))
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			containers[i].Image, containers[i].ImagePullPolicy = "busybox:1", corev1.PullNever
		}
	}
}

func (s *space) pod(name string) *corev1.Pod {
	s.Helper()
	pod, err := client.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// await waits until a pod is in a phase, and fails if it ends in another one.
func (s *space) await(name string, phase corev1.PodPhase) {
	s.Helper()
	until(s.T, fmt.Sprintf("pod %s is %s", name, phase), func() bool {
		pod, err := client.CoreV1().Pods(s.name).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		if have := pod.Status.Phase; have != phase && (have == corev1.PodSucceeded || have == corev1.PodFailed) {
			s.Fatalf("pod %s is %s, not %s: %+v", name, have, phase, pod.Status)
		}
		return pod.Status.Phase == phase
	})
}

// delete deletes a pod, and waits until it is gone.
func (s *space) delete(name string) {
	s.Helper()
	if err := client.CoreV1().Pods(s.name).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	until(s.T, "pod "+name+" is gone", func() bool {
		list, err := client.CoreV1().Pods(s.name).List(s.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(list.Items) == 0
	})
}

// environment is what a container that ran "env" has of devices, sorted.
func (s *space) environment(pod, container string) []string {
	s.Helper()
	var found []string
	for _, line := range logs(s.T, s.name, pod, container) {
		if strings.HasSuffix(line, "=given") {
			found = append(found, strings.TrimSuffix(line, "=given"))
		}
	}
	slices.Sort(found)
	return found
}

// mustHave compares what a container has of devices.
func (s *space) mustHave(pod, container string, want ...string) {
	s.Helper()
	if got := s.environment(pod, container); !slices.Equal(got, want) {
		s.Errorf("container %s of %s has %q, want %q", container, pod, got, want)
	}
}

// mustLeaveNothing waits until no device is in use: no CDI file of a claim is there, the ledgers hold nothing, and
// kubelet and the scheduler have all devices.
func (s *space) mustLeaveNothing() {
	s.Helper()
	var last string
	defer func() {
		if s.Failed() {
			s.Logf("left: %s", last)
		}
	}()
	until(s.T, "no device is in use", func() bool {
		last = ""
		files, err := filepath.Glob(filepath.Join(node.Folder(), "cdi", "*_*"))
		if err != nil {
			s.Fatal(err)
		}
		for _, file := range files {
			if !strings.Contains(file, "device-plugin") {
				last += file + " "
			}
		}
		ledgers, err := filepath.Glob(filepath.Join(node.Folder(), "kubelet", "plugins", "*", "ledger.json"))
		if err != nil || len(ledgers) == 0 {
			s.Fatal(ledgers, err)
		}
		for _, ledger := range ledgers {
			text, err := os.ReadFile(ledger)
			if err != nil {
				s.Fatal(err)
			}
			if strings.Contains(string(text), `"front"`) {
				last += string(text)
			}
		}
		return last == ""
	})
	until(s.T, "kubelet offers all devices", func() bool {
		object, err := client.CoreV1().Nodes().Get(s.Context(), node.Name(), metav1.GetOptions{})
		if err != nil {
			return false
		}
		have := object.Status.Allocatable[resource]
		last = have.String()
		return have.Value() == gpus
	})
}
