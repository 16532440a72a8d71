// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndAnnotation is when a pod, or all pods of a Job, are expected to end, as text of RFC 3339.
const EndAnnotation = "dray-project.github.io/expected-end"

// End is when a pod that is on a node is expected to end.
type End struct {
	Pod *corev1.Pod
	At  time.Time
}

// Expected is what a pod and its Job say of its end: the EndAnnotation of the pod; without one, that of the Job;
// without both, what comes first of status.startTime with spec.activeDeadlineSeconds of either. The Job is nil for a
// pod that has none. Known is false if they say nothing. The error names the object of which the annotation is no time.
func Expected(pod *corev1.Pod, job *batchv1.Job) (at time.Time, known bool, err error) {
	if at, known, err = annotated("pod", pod); known || err != nil {
		return at, known, err
	}
	at, known = deadline(pod.Status.StartTime, pod.Spec.ActiveDeadlineSeconds)
	if job == nil {
		return at, known, nil
	}
	if said, found, err := annotated("job", job); found || err != nil {
		return said, found, err
	}
	if ofJob, limited := deadline(job.Status.StartTime, job.Spec.ActiveDeadlineSeconds); limited && (!known || ofJob.Before(at)) {
		return ofJob, true, nil
	}
	return at, known, nil
}

func annotated(kind string, object metav1.Object) (at time.Time, found bool, err error) {
	text, found := object.GetAnnotations()[EndAnnotation]
	if !found {
		return time.Time{}, false, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return time.Time{}, false, fmt.Errorf("%s %s/%s: metadata.annotations[%s]: %w", kind, object.GetNamespace(), object.GetName(), EndAnnotation, err)
	}
	return at, true, nil
}

func deadline(start *metav1.Time, limit *int64) (at time.Time, known bool) {
	if start == nil || limit == nil {
		return time.Time{}, false
	}
	return start.Add(seconds(*limit)), true
}

// Lasting is how long pods run once they start: the longest spec.activeDeadlineSeconds; zero, for not known, if one of
// them has none.
func Lasting(pods []*corev1.Pod) time.Duration {
	var longest time.Duration
	for _, pod := range pods {
		if pod.Spec.ActiveDeadlineSeconds == nil {
			return 0
		}
		longest = max(longest, seconds(*pod.Spec.ActiveDeadlineSeconds))
	}
	return longest
}

// seconds is a number of seconds, of which more than the API server allows as a deadline count as that many.
func seconds(n int64) time.Duration {
	const most = 1<<31 - 1
	return time.Duration(min(max(n, 0), most)) * time.Second
}
