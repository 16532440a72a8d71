// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

const (
	// ending is how long containers of a pod may still run after its grace period.
	ending = 30 * time.Second
	// reporting is how long kubelet may take to report the start or end of a pod to the API server.
	reporting = 30 * time.Second
	// defaultGrace is the grace period of unknown pods.
	defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second
)

// Judge finds out for which resources devices may be in use that kubelet does not report. It
// remembers the pods of one node. Kubelet 1.37 does not list a force-deleted pod, although its
// containers may run until the end of its grace period. The zero value is ready for use. Methods
// may be called concurrently.
type Judge struct {
	mutex sync.Mutex
	pods  map[types.UID]remembered
	// doubts has the pods on which kubelet and the API server disagree, and since when.
	doubts map[types.NamespacedName]time.Time
	// unsure says that kubelet reported pods that the API server does not have, or did not report
	// its pods. agreed is the time since which both agree again, or zero. Time without an answer of
	// kubelet does not count.
	unsure bool
	agreed time.Time
}

// remembered is a pod that is not known to have ended.
type remembered struct {
	name      types.NamespacedName
	resources []string
	grace     time.Duration
	gone      time.Time // when the pod was found missing in the API server while kubelet agreed on all others; zero before
}

// Unexplained says, by resource, why unreported devices may be in use. An entry for AnyResource
// applies to all resources.
type Unexplained map[string]string

// AnyResource is the key for all resources.
const AnyResource = ""

// Why returns why unreported devices of a resource may be in use, or "" if they are free.
func (u Unexplained) Why(resource string) string {
	if why := u[AnyResource]; why != "" {
		return why
	}
	return u[resource]
}

// Free tells whether unreported devices of a resource are free.
func (u Unexplained) Free(resource string) bool { return u.Why(resource) == "" }

// Unexplained compares kubelet's answer with the pods of the node. The pods must have been listed
// after kubelet answered. An unreported device may be in use if
//   - a pod requests more devices of the resource than kubelet reports: an init
//     container may have them, or kubelet does not know the pod yet;
//   - kubelet does not report a pod that it started: it does not know its pods yet;
//   - kubelet reports a pod that the API server does not have, so that its requests are unknown;
//   - a pod was deleted that is not known to have ended, and its grace period is not over.
func (j *Judge) Unexplained(answer *Answer, pods []corev1.Pod) Unexplained {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	now := time.Now()
	out := make(Unexplained)
	listed, started := make(map[types.NamespacedName]int), make(map[types.NamespacedName]int)
	exist := make(map[types.UID]bool)
	before := j.doubts
	j.doubts = make(map[types.NamespacedName]time.Time)
	doubt := func(name types.NamespacedName, sure bool, why string) {
		out[AnyResource] = why
		since, known := before[name]
		if !known {
			since = now
		}
		j.doubts[name] = since
		if sure || now.Sub(since) > reporting {
			j.unsure, j.agreed = true, time.Time{}
		}
	}
	for i := range pods {
		pod := &pods[i]
		name := nameOf(pod)
		exist[pod.UID] = true
		listed[name]++
		if pod.Status.StartTime != nil { // kubelet has accepted this pod, so its report is about it
			started[name]++
		}
		j.observe(pod)
		if ended(pod) || isTerminal(pod) && answer.pods[name].pods == 0 {
			continue
		}
		if pod.Status.StartTime != nil && answer.pods[name].pods == 0 {
			doubt(name, false, fmt.Sprintf("kubelet does not have pod %s, which it started: it does not know its pods yet", name))
		}
		for resource, quantity := range requests(pod) {
			if has := answer.pods[name].count[resource]; quantity > has {
				out[resource] = fmt.Sprintf("pod %s is to have %d, and kubelet reports %d", name, quantity, has)
			}
		}
	}
	for name, reported := range answer.pods {
		if reported.pods > started[name] {
			doubt(name, reported.pods > listed[name], fmt.Sprintf("kubelet has a pod %s that the API server does not have, or not as started", name))
		}
	}
	for name, since := range before { // the disagreement may have lasted until now
		if _, still := j.doubts[name]; !still && now.Sub(since) > reporting {
			j.unsure, j.agreed = true, time.Time{}
		}
	}
	j.remember(exist, out)
	switch {
	case !j.unsure || out[AnyResource] != "":
	case j.agreed.IsZero():
		j.agreed = now
	case now.Sub(j.agreed) > defaultGrace+ending:
		j.unsure = false
	}
	if j.unsure && out[AnyResource] == "" {
		out[AnyResource] = "kubelet did not know its pods a moment ago, or had one that the API server did not have: some may run that nobody reports"
	}
	return out
}

// remember adds the resources of deleted pods that may still run.
func (j *Judge) remember(exist map[types.UID]bool, out Unexplained) {
	now := time.Now()
	for uid, pod := range j.pods {
		switch {
		case exist[uid]:
			pod.gone = time.Time{}
			j.pods[uid] = pod
			continue
		case out[AnyResource] != "": // kubelet may not know of the deletion yet
			pod.gone = time.Time{}
		case pod.gone.IsZero():
			pod.gone = now
		case now.Sub(pod.gone) > pod.grace+ending:
			delete(j.pods, uid)
			continue
		}
		j.pods[uid] = pod
		for _, resource := range pod.resources {
			out[resource] = fmt.Sprintf("pod %s was deleted, and is not known to have ended", pod.name)
		}
	}
}

// Silent says that kubelet did not answer. No pods end in that time, so all waiting periods start
// over.
func (j *Judge) Silent() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.agreed = time.Time{}
	for uid, pod := range j.pods {
		pod.gone = time.Time{}
		j.pods[uid] = pod
	}
}

// Waits tells whether the result may change by time alone: a deleted pod may still run, or kubelet
// and the API server disagree.
func (j *Judge) Waits() bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.unsure || len(j.doubts) > 0 {
		return true
	}
	for _, pod := range j.pods {
		if !pod.gone.IsZero() {
			return true
		}
	}
	return false
}

// Observe records a state of a pod, for instance the last one before its deletion. The judge then
// need not wait for a pod that has ended. Calls of Observe are optional.
func (j *Judge) Observe(pod *corev1.Pod) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.observe(pod)
}

func (j *Judge) observe(pod *corev1.Pod) {
	if ended(pod) {
		delete(j.pods, pod.UID)
		return
	}
	var resources []string
	for resource := range requests(pod) {
		resources = append(resources, resource)
	}
	if len(resources) == 0 {
		return
	}
	grace := int64(defaultGrace / time.Second)
	if of := pod.Spec.TerminationGracePeriodSeconds; of != nil {
		grace = *of
	}
	if of := pod.DeletionGracePeriodSeconds; of != nil {
		grace = max(grace, *of)
	}
	if j.pods == nil {
		j.pods = make(map[types.UID]remembered)
	}
	j.pods[pod.UID] = remembered{name: nameOf(pod), resources: resources, grace: time.Duration(grace) * time.Second, gone: j.pods[pod.UID].gone}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// requests returns how many devices of each extended resource a pod requests of device plugins. A
// resource that the scheduler serves by a claim (KEP-5004) may have the name of a device plugin's, and
// is left out.
func requests(pod *corev1.Pod) map[string]int64 {
	out := make(map[string]int64)
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true}) {
		if strings.Contains(string(name), "/") && quantity.Value() > 0 { // an extended resource
			out[string(name)] = quantity.Value()
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		for _, mapping := range extended.RequestMappings {
			delete(out, mapping.ResourceName)
		}
	}
	return out
}

// ended tells whether all containers of a pod have ended and none will start. The phase alone is
// not enough, because it may be set by others than kubelet.
func ended(pod *corev1.Pod) bool {
	if !isTerminal(pod) {
		return false
	}
	runs := func(status corev1.ContainerStatus) bool { return status.State.Running != nil }
	return !slices.ContainsFunc(pod.Status.InitContainerStatuses, runs) && !slices.ContainsFunc(pod.Status.ContainerStatuses, runs)
}

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Wants returns namespace and name of the first pod that has not ended and requests a resource for
// which the function returns true. It is empty if there is none.
func Wants(pods []corev1.Pod, resource func(string) bool) string {
	for i := range pods {
		if ended(&pods[i]) {
			continue
		}
		for name := range requests(&pods[i]) {
			if resource(name) {
				return nameOf(&pods[i]).String()
			}
		}
	}
	return ""
}
