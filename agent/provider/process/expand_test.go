// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// TestCommandIsExpanded: variables see those before them, and commands see all.
func TestCommandIsExpanded(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "$(FIRST)"}}
	got, err := new(Provider).containerOf(pod, &corev1.Container{
		Command: []string{"run-$(SECOND)"}, Args: []string{"--later=$(LATER)", "$$(FIRST)"},
		Env: []corev1.EnvVar{
			{Name: "FIRST", Value: "1"}, {Name: "SECOND", Value: "$(FIRST)+$(LATER)"}, {Name: "LATER", Value: "2"},
			{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		},
	}, "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"run-1+$(LATER)", "--later=2", "$(FIRST)"}; !slices.Equal(got.Args, want) {
		t.Errorf("command %q, want %q", got.Args, want)
	}
	if want := []string{"FIRST=1", "SECOND=1+$(LATER)", "LATER=2", "POD=$(FIRST)"}; !slices.Equal(got.Env[len(standard("")):], want) {
		t.Errorf("environment %q, want %q", got.Env, want)
	}
}

// TestFieldsOfThePod: variables have labels, annotations and other fields of the pod, but no addresses.
func TestFieldsOfThePod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "uid", Labels: map[string]string{"app": "l"}, Annotations: map[string]string{"example.com/rank": "3"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default"},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1"},
	}
	for path, want := range map[string]string{
		"metadata.name": "a", "metadata.namespace": "ns", "metadata.uid": "uid", "metadata.labels['app']": "l", "metadata.labels['none']": "",
		"metadata.annotations['example.com/rank']": "3", "spec.nodeName": "node-1", "spec.serviceAccountName": "default",
	} {
		got, err := valueOf(pod, corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}, nil)
		if got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"status.podIP":  `env: V: fieldRef "status.podIP": the status of the pod has no addresses`,
		"spec.priority": `env: V: fieldRef "spec.priority": not a field that variables can have`,
	} {
		_, err := valueOf(pod, corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}, nil)
		if !errdefs.IsInvalidInput(err) || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// TestDeviceHasWhatAllOfItsSpecHave: a process gets the edits of its device and those of the whole spec, also if
// the spec was written after the provider began.
func TestDeviceHasWhatAllOfItsSpecHave(t *testing.T) {
	folder := t.TempDir()
	p, err := New(Options{Folder: t.TempDir(), LogFolder: t.TempDir(), CDIFolders: []string{folder}, Devices: func(context.Context, *corev1.Pod, string) ([]string, error) {
		return []string{"example.com/gpu=one"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(0)
	spec := `{"cdiVersion": "0.7.0", "kind": "example.com/gpu", "containerEdits": {"env": ["ALL=1"], "additionalGids": [5]},
		"devices": [{"name": "one", "containerEdits": {"env": ["ONE=2"]}}, {"name": "two", "containerEdits": {"env": ["TWO=3"]}}]}`
	if err := os.WriteFile(filepath.Join(folder, "gpu.json"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Command: []string{"true"}}}}}
	plan, err := p.plan(t.Context(), pod)
	if os.Geteuid() != 0 {
		if err == nil {
			t.Error("a group is given by who is not root")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := plan.Containers[0]
	if environment := got.Env[len(standard("")):]; !slices.Equal(environment, []string{"ALL=1", "ONE=2"}) || !slices.Equal(got.Identity.Groups, []uint32{5}) {
		t.Errorf("environment %q, groups %v", environment, got.Identity.Groups)
	}
}
