// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MakerOf is KIND/NAME, the kind in lower case, of the object that a pod is made for: the outermost one that can be told by the
// pod alone. It is empty for a pod that nothing has made.
func MakerOf(pod *corev1.Pod) string {
	for _, kind := range slices.Backward(Makers()) {
		kind = strings.ToLower(kind)
		if kind == "virtualmachine" {
			continue // an instance need not be that of a machine
		}
		if name := MadeBy(pod, kind); name != "" {
			return kind + "/" + name
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return ""
}

// MadeBy names the object of a kind, in lower case, that has made a pod, maybe by way of another object. It is empty
// if there is none. What is between them is not read: a ReplicaSet is called after its Deployment and the hash of
// its pods, a Job after its CronJob and the minute, an instance of a virtual machine like the machine, and pods of some
// kinds have a label.
func MadeBy(pod *corev1.Pod, kind string) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return ""
	case strings.ToLower(owner.Kind) == kind:
		return owner.Name
	case kind == "deployment" && owner.Kind == "ReplicaSet" && pod.Labels["pod-template-hash"] != "":
		name, isMade := strings.CutSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
		if !isMade {
			return ""
		}
		return name
	case kind == "cronjob" && owner.Kind == "Job":
		if parts := jobOfCronJob.FindStringSubmatch(owner.Name); parts != nil {
			return parts[1]
		}
		return ""
	case kind == "virtualmachine" && owner.Kind == "VirtualMachineInstance":
		return owner.Name
	}
	return pod.Labels[makerLabels[kind]]
}

// makerLabels name the object that a pod is made for.
var makerLabels = map[string]string{
	"jobset":           "jobset.sigs.k8s.io/jobset-name",
	"leaderworkerset":  "leaderworkerset.sigs.k8s.io/name",
	"inferenceservice": "serving.kserve.io/inferenceservice",
}

// Makers are the kinds of objects that are known by their pods but do not own them.
func Makers() []string {
	return []string{"Deployment", "CronJob", "VirtualMachine", "JobSet", "LeaderWorkerSet", "InferenceService"}
}

// jobOfCronJob ends with minutes since 1970, which have eight digits from 1989 on.
var jobOfCronJob = regexp.MustCompile(`^(.+)-\d{8,}$`)
