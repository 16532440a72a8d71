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

// EndAnnotation is the expected end of a pod, or of all pods of a Job, as a time of RFC 3339.
const EndAnnotation = "dray-project.github.io/expected-end"

// End is the time at which a running pod is expected to end.
type End struct {
	Pod *corev1.Pod
	At  time.Time
}

// Expected returns the expected end of a pod: the EndAnnotation of the pod, else that of its Job. Without both,
// it is the earlier of the deadlines: status.startTime plus spec.activeDeadlineSeconds, of the pod and of the
// Job. A pod that is being deleted ends at its metadata.deletionTimestamp at the latest. The Job is nil for a pod
// without one. known is false if there is none of these. The error names the object with an invalid annotation.
func Expected(pod *corev1.Pod, job *batchv1.Job) (at time.Time, known bool, err error) {
	if at, known, err = planned(pod, job); err != nil {
		return at, known, err
	}
	if deleted := pod.DeletionTimestamp; deleted != nil && (!known || deleted.Time.Before(at)) {
		return deleted.Time, true, nil
	}
	return at, known, nil
}

// planned is Expected for a pod that nobody deletes.
func planned(pod *corev1.Pod, job *batchv1.Job) (at time.Time, known bool, err error) {
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

// Lasting returns how long pods run after they start: the longest spec.activeDeadlineSeconds. It is zero, for
// unknown, if one of them has none.
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

// seconds converts a number of seconds. Numbers above the API server's maximum for deadlines count as that
// maximum.
func seconds(n int64) time.Duration {
	const most = 1<<31 - 1
	return time.Duration(min(max(n, 0), most)) * time.Second
}
