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
	// ending is how long the containers of a pod may take to end after its grace period is over.
	ending = 30 * time.Second
	// reporting is how long kubelet may take to write to the API server that a pod began or ended.
	reporting = 30 * time.Second
	// defaultGrace is the grace period of pods that nobody knows.
	defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second
)

// Judge tells of which resources devices may be in use that kubelet leaves out. It remembers the
// pods of one node: kubelet 1.37 does not list a pod that was deleted by force, although its
// containers may run until the grace period of the pod is over. The zero value knows no pods. Methods
// may be called concurrently.
type Judge struct {
	mutex sync.Mutex
	pods  map[types.UID]remembered
	// doubts is since when kubelet's answers and the API server do not agree on a pod.
	doubts map[types.NamespacedName]time.Time
	// unsure says that kubelet had pods that nobody knows, or did not know its pods, and agreed is since when it
	// does and has not; zero if that is not over. What passes without an answer does not count.
	unsure bool
	agreed time.Time
}

// remembered is a pod that did not end as far as is known.
type remembered struct {
	name      types.NamespacedName
	resources []string
	grace     time.Duration
	gone      time.Time // when the API server was found not to have it, and kubelet agreed on all others; zero before
}

// Unexplained is why devices of a resource may be in use that kubelet leaves out, by
// resource. What stands at AnyResource is true of all.
type Unexplained map[string]string

// AnyResource is in place of the name of a resource.
const AnyResource = ""

// Why is empty if the devices of a resource that kubelet leaves out belong to nobody.
func (u Unexplained) Why(resource string) string {
	if why := u[AnyResource]; why != "" {
		return why
	}
	return u[resource]
}

// Free tells whether the devices of a resource that kubelet leaves out belong to nobody.
func (u Unexplained) Free(resource string) bool { return u.Why(resource) == "" }

// Unexplained compares kubelet's answer with the pods of the node, which are from an answer of the
// API server that is newer than kubelet's. A device that kubelet leaves out may be in use if
//   - a pod is to have more devices of the resource than kubelet reports: an init
//     container may have them, or kubelet does not know the pod yet;
//   - kubelet does not report a pod that it started: it does not know its pods yet;
//   - kubelet reports a pod that the API server does not have, so that nobody knows what it is to have;
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
		if pod.Status.StartTime != nil { // kubelet accepted it: what it reports is of this one
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
	for name, since := range before { // it lasted until now, for all that is known
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

// remember adds the resources of pods that were deleted, and may run.
func (j *Judge) remember(exist map[types.UID]bool, out Unexplained) {
	now := time.Now()
	for uid, pod := range j.pods {
		switch {
		case exist[uid]:
			pod.gone = time.Time{}
			j.pods[uid] = pod
			continue
		case out[AnyResource] != "": // kubelet may not know yet that it was deleted
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

// Silent tells that kubelet does not answer. It ends no pods in that time, so that all that is waited
// for is waited for anew.
func (j *Judge) Silent() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.agreed = time.Time{}
	for uid, pod := range j.pods {
		pod.gone = time.Time{}
		j.pods[uid] = pod
	}
}

// Waits tells whether time must pass before it is known what pods have: one was deleted and may run,
// or kubelet and the API server do not agree.
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

// Observe tells of a state of a pod, which may be the last one before it was deleted. A pod that is
// seen to have ended is not waited for. Without Observe, all works, but waits longer.
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

// requests are how many devices of each extended resource a pod is to have.
func requests(pod *corev1.Pod) map[string]int64 {
	out := make(map[string]int64)
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true}) {
		if strings.Contains(string(name), "/") && quantity.Value() > 0 { // not cpu, memory and the like
			out[string(name)] = quantity.Value()
		}
	}
	return out
}

// ended tells whether no container of a pod runs or will. Others than kubelet may set the phase of a
// pod whose containers run.
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

// Wants returns the namespace and name of the first pod that has not ended and requests a resource for
// which the function is true. It is empty if there is none.
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
