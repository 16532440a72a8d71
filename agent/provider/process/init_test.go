// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// withVolume gives all containers of a pod an emptyDir, and returns where it is. The folder is
// one in which everybody may look.
func withVolume(t *testing.T, pod *corev1.Pod, dir corev1.EmptyDirVolumeSource) string {
	t.Helper()
	path, err := os.MkdirTemp("/tmp", "volume")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
			t.Errorf("the machine's folder has %v, %v", entries, err)
		}
		_ = os.RemoveAll(path)
	})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &dir}})
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: path})
		}
	}
	return path
}

func initContainer(name, script string) corev1.Container {
	return corev1.Container{Name: name, Command: []string{"/bin/sh", "-c", script}}
}

// volumeFile is where the provider keeps a file of the volume of the pod.
func (f *fixture) volumeFile(t *testing.T, name string) string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(f.options.Folder, "*", "volumes", "*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("volumes %v, %v", folders, err)
	}
	return filepath.Join(folders[0], name)
}

func conditionOf(status *corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return corev1.PodCondition{}
	}
	return status.Conditions[i]
}

// TestInitContainers run in order, each to its end, before the others.
func TestInitContainers(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell("cat $V/order", corev1.RestartPolicyOnFailure)
	pod.Spec.InitContainers = []corev1.Container{
		initContainer("first", "until test -e $V/seen; do sleep 0.1; done; echo first >> $V/order"),
		initContainer("second", "test -e $V/tried && echo second >> $V/order && exit 0; touch $V/tried; exit 3"),
	}
	path := withVolume(t, pod, corev1.EmptyDirVolumeSource{})
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].Env = []corev1.EnvVar{{Name: "V", Value: path}}
		}
	}
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	waits := f.await(t, "the first init container", func(s *corev1.PodStatus) bool { return s.InitContainerStatuses[0].State.Running != nil })
	if is := conditionOf(waits, corev1.PodInitialized); is.Status != corev1.ConditionFalse || is.Reason != "ContainersNotInitialized" || is.Message != "containers with incomplete status: [first second]" {
		t.Errorf("condition %v", is)
	}
	if state := waits.ContainerStatuses[0].State.Waiting; waits.Phase != corev1.PodPending || state == nil || state.Reason != "PodInitializing" {
		t.Errorf("phase %s, main %v", waits.Phase, waits.ContainerStatuses[0].State)
	}
	if err := os.WriteFile(f.volumeFile(t, "seen"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	status := f.await(t, "success", isPhase(corev1.PodSucceeded))
	for i, restarts := range []int32{0, 1} {
		if is := status.InitContainerStatuses[i]; is.State.Terminated == nil || is.State.Terminated.Reason != "Completed" || !is.Ready || is.RestartCount != restarts {
			t.Errorf("init container %d is %v", i, is)
		}
	}
	if last := status.InitContainerStatuses[1].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 {
		t.Errorf("second ended with %v before", last)
	}
	if is := conditionOf(status, corev1.PodInitialized); is.Status != corev1.ConditionTrue {
		t.Errorf("condition %v", is)
	}
	f.awaitLog(t, "stdout F first\n")
	f.awaitLog(t, "stdout F second\n")
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.expectNothing(t)
}

// TestInitContainerThatFails: without restarts, the others do not run.
func TestInitContainerThatFails(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell("true", corev1.RestartPolicyNever)
	pod.Spec.InitContainers = []corev1.Container{initContainer("first", "exit 3"), initContainer("second", "true")}
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	status := f.await(t, "failure", isPhase(corev1.PodFailed))
	if ended := status.InitContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 3 {
		t.Errorf("first is %v", status.InitContainerStatuses[0])
	}
	for _, is := range []corev1.ContainerStatus{status.InitContainerStatuses[1], status.ContainerStatuses[0]} {
		if is.State.Waiting == nil || is.State.Waiting.Reason != "PodInitializing" {
			t.Errorf("%s is %v", is.Name, is.State)
		}
	}
}

// TestSidecar runs beside the others, and ends after them. How it ends does not count.
func TestSidecar(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell("until test -e $V/side; do sleep 0.1; done; cat $V/side", corev1.RestartPolicyNever)
	side := initContainer("side", `trap 'echo told; exit 9' TERM; echo side runs > $V/side; while :; do sleep 0.1; done`)
	side.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{side}
	path := withVolume(t, pod, corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))})
	pod.Spec.InitContainers[0].Env = []corev1.EnvVar{{Name: "V", Value: path}}
	pod.Spec.Containers[0].Env = pod.Spec.InitContainers[0].Env
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	status := f.await(t, "success", isPhase(corev1.PodSucceeded))
	if ended := status.InitContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 9 {
		t.Errorf("side is %v", status.InitContainerStatuses[0])
	}
	f.awaitLog(t, "side runs\n")
	f.expectNoProcess(t)
}

// TestEmptyDir: a volume has the group of the pod, stays when a container starts again, and is
// not written where it is mounted to be read. One in memory has its size.
func TestEmptyDir(t *testing.T) {
	if !isRoot(t) {
		return
	}
	for name, c := range map[string]struct {
		dir    corev1.EmptyDirVolumeSource
		script string
	}{
		"disk":      {script: `id -G; stat -c '%%g %%a' %[1]s; touch %[1]s/a && stat -c 'made %%g' %[1]s/a`},
		"memory":    {dir: corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))}, script: `stat -c '%%g %%a' %[1]s; echo made 1234; ! head -c 2000000 /dev/zero > %[1]s/big`},
		"read-only": {script: `stat -c '%%g %%a' %[1]s; echo made 1234; ! touch %[1]s/a`},
	} {
		f := newFixture(t, nil)
		pod := shell("", corev1.RestartPolicyNever)
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1234)}
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
		path := withVolume(t, pod, c.dir)
		pod.Spec.Containers[0].VolumeMounts[0].ReadOnly = name == "read-only"
		pod.Spec.Containers[0].Args = []string{fmt.Sprintf(c.script, path)}
		if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		f.await(t, "the end", func(s *corev1.PodStatus) bool {
			if s.Phase == corev1.PodFailed {
				t.Errorf("%s: %v", name, s.ContainerStatuses[0].State.Terminated)
			}
			return s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
		})
		f.awaitLog(t, map[bool]string{false: "stdout F 1234 2777\n", true: "stdout F 1234 3777\n"}[name == "memory"])
		f.awaitLog(t, "stdout F made 1234\n")
	}
}
