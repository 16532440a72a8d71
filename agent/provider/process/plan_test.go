// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// TestPauseAfter: the first supervisor is replaced at once, and the others later and later.
func TestPauseAfter(t *testing.T) {
	for again, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		if got := pauseAfter(again); got != want*time.Second {
			t.Errorf("supervisor %d: got a pause of %v, want %ds", again, got, want)
		}
	}
	if got := pauseAfter(1 << 40); got != lastPause {
		t.Errorf("got a pause of %v after very many, want %v", got, lastPause)
	}
}

// TestLimitsOfPod: the limits are the pod's own, and its containers request the CPU together.
func TestLimitsOfPod(t *testing.T) {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Resources: corev1.ResourceRequirements{Requests: amounts("250m", "1Mi"), Limits: amounts("9", "9Mi")}},
		{Name: "b", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "1Mi")}},
	}}}
	if got, want := limitsOfPod(pod), (cgroup.Limits{CPURequest: 750}); got != want {
		t.Errorf("without limits of the pod: %+v, want %+v", got, want)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("2", "3Mi"), Requests: amounts("1", "2Mi")}
	if got, want := limitsOfPod(pod), (cgroup.Limits{CPU: 2000, CPURequest: 1000, Memory: 3 << 20}); got != want {
		t.Errorf("with limits of the pod: %+v, want %+v", got, want)
	}
}

// TestVolumesOf: a volume has the mode that its pod gives, or else that of its medium. Only one in memory has a size.
func TestVolumesOf(t *testing.T) {
	limit, mode := resource.MustParse("1Mi"), int32(0o1750)
	in := func(dir corev1.EmptyDirVolumeSource) supervisor.Volume {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &dir}}}}}
		return volumesOf(pod)[0]
	}
	for name, test := range map[string]struct {
		dir  corev1.EmptyDirVolumeSource
		want supervisor.Volume
	}{
		"disk":         {corev1.EmptyDirVolumeSource{SizeLimit: &limit}, supervisor.Volume{Name: "v", Mode: defaultMode}},
		"memory":       {corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}, supervisor.Volume{Name: "v", Memory: true, Mode: defaultMemoryMode, Size: 1 << 20}},
		"mode":         {corev1.EmptyDirVolumeSource{Mode: &mode}, supervisor.Volume{Name: "v", Mode: 0o1750}},
		"memory, mode": {corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, Mode: &mode}, supervisor.Volume{Name: "v", Memory: true, Mode: 0o1750}},
	} {
		if got := in(test.dir); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// TestMountsOfTokens: the token of the service account is mounted nowhere, neither where it always is nor elsewhere.
func TestMountsOfTokens(t *testing.T) {
	token := corev1.Volume{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{token}}}
	for path, refused := range map[string]bool{serviceAccountPath: false, "/tmp": true} {
		container := &corev1.Container{Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: token.Name, MountPath: path}}}
		if mounts, err := (&Provider{}).mountsOf(pod, container); len(mounts) > 0 || errdefs.IsInvalidInput(err) != refused {
			t.Errorf("%s: %v, %v; want that it is refused: %t", path, mounts, err, refused)
		}
	}
}
