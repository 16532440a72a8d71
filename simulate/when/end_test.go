// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate/when"
)

// noon is when queues begin.
var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func minutes(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

// A pod and its Job say themselves when the pod ends.
func TestExpected(t *testing.T) {
	started := metav1.NewTime(noon)
	pod := func(annotation string, seconds int64) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.Status.StartTime = "n", "p", &started
		if annotation != "" {
			p.Annotations = map[string]string{when.EndAnnotation: annotation}
		}
		if seconds > 0 {
			p.Spec.ActiveDeadlineSeconds = &seconds
		}
		return p
	}
	job := func(annotation string, seconds int64) *batchv1.Job {
		like := pod(annotation, seconds)
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", Annotations: like.Annotations},
			Spec:       batchv1.JobSpec{ActiveDeadlineSeconds: like.Spec.ActiveDeadlineSeconds}, Status: batchv1.JobStatus{StartTime: &started},
		}
	}
	waits := pod("", 60)
	waits.Status.StartTime = nil
	deleted := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(minutes(5)))
		return p
	}
	const seven, nine = "2026-11-25T12:07:00Z", "2026-11-25T10:09:00-02:00"
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		job   *batchv1.Job
		want  time.Time
		known bool
		err   string
	}{
		"nothing":                         {pod: pod("", 0), job: job("", 0)},
		"not started":                     {pod: waits},
		"a deadline":                      {pod: pod("", 120), want: minutes(2), known: true},
		"beyond what is allowed":          {pod: pod("", 1<<62), want: noon.Add((1<<31 - 1) * time.Second), known: true},
		"the pod's annotation":            {pod: pod(seven, 60), job: job(nine, 60), want: minutes(7), known: true},
		"the job's annotation":            {pod: pod("", 60), job: job(nine, 60), want: minutes(9), known: true},
		"the job's deadline":              {pod: pod("", 0), job: job("", 180), want: minutes(3), known: true},
		"the job's deadline comes first":  {pod: pod("", 300), job: job("", 180), want: minutes(3), known: true},
		"the pod's deadline comes first":  {pod: pod("", 120), job: job("", 180), want: minutes(2), known: true},
		"being deleted":                   {pod: deleted(pod("", 0)), want: minutes(5), known: true},
		"deleted before it would end":     {pod: deleted(pod(seven, 0)), want: minutes(5), known: true},
		"deleted, and ends before":        {pod: deleted(pod("", 120)), job: job("", 600), want: minutes(2), known: true},
		"the annotation is no time":       {pod: pod("soon", 60), err: "pod n/p: metadata.annotations[" + when.EndAnnotation + "]: "},
		"the job's annotation is no time": {pod: pod("", 60), job: job("soon", 60), err: "job n/j: metadata.annotations[" + when.EndAnnotation + "]: "},
	} {
		at, known, err := when.Expected(test.pod, test.job)
		if !at.Equal(test.want) || known != test.known || (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%s: got %v, %t, %v; want %v, %t, %s", name, at, known, err, test.want, test.known, test.err)
		}
	}
}

// The duration of pods is that of the longest, if all have one.
func TestDurationOfLongestPod(t *testing.T) {
	pods := make([]*corev1.Pod, 3)
	for i := range pods {
		pods[i] = &corev1.Pod{Spec: corev1.PodSpec{ActiveDeadlineSeconds: ptr.To(int64(60 * (2 - i)))}}
	}
	if got := when.Lasting(pods); got != 2*time.Minute {
		t.Errorf("they last %v, want 2m", got)
	}
	if got := when.Lasting(append(pods, &corev1.Pod{})); got != 0 {
		t.Errorf("with one that does not say, they last %v, want 0", got)
	}
}
