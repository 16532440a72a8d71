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

// MakerOf returns KIND/NAME, with the kind in lower case, of the object for which a pod was made.
// It is the outermost object that the pod's metadata shows. It is empty for a pod without an owner.
func MakerOf(pod *corev1.Pod) string {
	for _, kind := range slices.Backward(Makers()) {
		kind = strings.ToLower(kind)
		if kind == "virtualmachine" {
			continue // an Instance is not necessarily that of a virtual machine
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

// MadeBy returns the name of the object of a kind, in lower case, that has made a pod, directly or
// indirectly. It is empty if there is none. Intermediate objects are not read; their names imply
// the owner's. A ReplicaSet has the name of its Deployment and a hash, a Job that of its CronJob
// and the minute, and an instance of a virtual machine that of the machine. Pods of some kinds have
// a label with the name.
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

// makerLabels are labels with the name of the object that made a pod.
var makerLabels = map[string]string{
	"jobset":           "jobset.sigs.k8s.io/jobset-name",
	"leaderworkerset":  "leaderworkerset.sigs.k8s.io/name",
	"inferenceservice": "serving.kserve.io/inferenceservice",
}

// Makers returns the kinds of objects that can be found by labels or names of pods without owning
// them.
func Makers() []string {
	return []string{"Deployment", "CronJob", "VirtualMachine", "JobSet", "LeaderWorkerSet", "InferenceService"}
}

// jobOfCronJob matches names that end with the minutes since 1970, which have at least eight digits
// since 1989.
var jobOfCronJob = regexp.MustCompile(`^(.+)-\d{8,}$`)
