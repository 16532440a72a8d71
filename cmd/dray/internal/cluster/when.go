// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate/when"
)

// Running returns the pods that use resources of an existing node.
func (c *Cluster) Running() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range c.objects.Pods {
		if nodefit.Occupies(pod) && c.Node(pod.Spec.NodeName) != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Jobs returns the Jobs among the objects that were read. It returns an error for a Job that cannot
// be decoded.
func (c *Cluster) Jobs() ([]*batchv1.Job, error) {
	var jobs []*batchv1.Job
	for _, controller := range c.objects.Controllers {
		if controller.Kind.GroupKind() != batchv1.SchemeGroupVersion.WithKind("Job").GroupKind() {
			continue
		}
		job := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(controller.Object.Object, job); err != nil {
			return nil, fmt.Errorf("%s: %w", controller, err)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// Ends returns the expected ends of running pods, from the pods and their Jobs. The error joins one
// error for each pod that is left out.
func (c *Cluster) Ends(jobs []*batchv1.Job) ([]when.End, error) {
	byKey := make(map[types.NamespacedName]*batchv1.Job, len(jobs))
	for _, job := range jobs {
		byKey[keyOf(job)] = job
	}
	var ends []when.End
	var errs []error
	for _, pod := range c.Running() {
		var job *batchv1.Job
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
			job = byKey[types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}]
		}
		at, known, err := when.Expected(pod, job)
		if err != nil {
			errs = append(errs, err)
		}
		if known && err == nil {
			ends = append(ends, when.End{Pod: pod, At: at})
		}
	}
	return ends, errors.Join(errs...)
}
