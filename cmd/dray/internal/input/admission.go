// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodeapi "k8s.io/api/node/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cmd/dray/internal/workload"
	"github.com/dray-project/dray/podclaims"
)

// admission does what the API server does to a new pod according to PriorityClasses, RuntimeClasses
// and LimitRanges.
type admission struct {
	priorities map[string]int32
	// unnamed is the priority of pods that name no class.
	unnamed  int32
	runtimes map[string]*nodeapi.RuntimeClass
	// requests are what containers request of resources for which they say nothing, by namespace.
	requests map[string]corev1.ResourceList
	// told has the classes of which a warning said that they were not read.
	told map[string]bool
}

// admit completes the pods that no API server has written, and the templates of pods.
func (r *reader) admit() {
	o := r.objects
	a := &admission{
		priorities: map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000},
		runtimes:   make(map[string]*nodeapi.RuntimeClass), told: make(map[string]bool), requests: defaultRequests(o.LimitRanges),
	}
	someDefault := false
	for _, class := range o.PriorityClasses {
		a.priorities[class.Name] = class.Value
		if class.GlobalDefault && (!someDefault || class.Value < a.unnamed) {
			a.unnamed, someDefault = class.Value, true
		}
	}
	for _, class := range o.RuntimeClasses {
		a.runtimes[class.Name] = class
	}
	o.Pods = slices.DeleteFunc(o.Pods, func(pod *corev1.Pod) bool {
		origin, _ := o.Origin("Pod", pod.Namespace, pod.Name)
		if pod.UID != "" {
			return false
		}
		setContainerRequests(&pod.Spec, a.requests[pod.Namespace])
		return !r.admitted(a, &pod.Spec, describe("Pod", pod)+": spec", origin)
	})
	o.Controllers = slices.DeleteFunc(o.Controllers, func(c *workload.Controller) bool {
		origin, _ := o.Origin(c.Kind.GroupKind().String(), c.Object.GetNamespace(), c.Object.GetName())
		return slices.ContainsFunc(c.Parts, func(part *workload.Part) bool {
			setContainerRequests(&part.Template.Spec, a.requests[c.Object.GetNamespace()])
			return !r.admitted(a, &part.Template.Spec, describe(c.Kind.Kind, c.Object)+": "+part.Path+".spec", origin)
		})
	})
}

// defaultRequests returns what LimitRanges say that containers request by default, by namespace. A
// default limit counts as a default request, and so do the most and the least that is permitted.
func defaultRequests(ranges []*corev1.LimitRange) map[string]corev1.ResourceList {
	byNamespace := make(map[string]corev1.ResourceList)
	for _, one := range ranges {
		list := byNamespace[one.Namespace]
		for i := range one.Spec.Limits {
			item := &one.Spec.Limits[i]
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			for _, defaults := range []corev1.ResourceList{item.DefaultRequest, item.Default, item.Max, item.Min} {
				setMissing(&list, defaults, anyResource)
			}
		}
		byNamespace[one.Namespace] = list
	}
	return byNamespace
}

func setContainerRequests(spec *corev1.PodSpec, defaults corev1.ResourceList) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			setMissing(&containers[i].Resources.Requests, defaults, anyResource)
		}
	}
}

// admitted completes the spec of a pod, and reports whether the API server would admit it. path
// names it in errors.
func (r *reader) admitted(a *admission, spec *corev1.PodSpec, path string, origin Origin) bool {
	missing := func(field, kind, name, effect string) {
		if !a.told[kind+name] && usesDevices(spec) {
			a.told[kind+name] = true
			r.warn(origin, fmt.Errorf("%s.%s: %s %s was not read: %s", path, field, kind, name, effect))
		}
	}
	if spec.Priority == nil {
		priority, known := a.priorities[spec.PriorityClassName]
		switch {
		case spec.PriorityClassName == "":
			priority = a.unnamed
		case !known:
			missing("priorityClassName", "PriorityClass", spec.PriorityClassName, "the priority counts as 0")
		}
		if priority != 0 {
			spec.Priority = &priority
		}
	}
	name := ptr.Deref(spec.RuntimeClassName, "")
	class := a.runtimes[name]
	switch {
	case name == "":
		return true
	case class == nil:
		missing("runtimeClassName", "RuntimeClass", name, "what it takes of a node, and the nodes that it asks for, are not looked at")
		return true
	}
	if err := runWith(spec, class); err != nil {
		return r.object(origin, fmt.Errorf("%s.%w", path, err))
	}
	return true
}

// runWith adds what a RuntimeClass says of nodes: the overhead, node labels and tolerations.
func runWith(spec *corev1.PodSpec, class *nodeapi.RuntimeClass) error {
	if class.Overhead != nil {
		spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	selector := maps.Clone(class.Scheduling.NodeSelector)
	for key, value := range spec.NodeSelector {
		if other, found := selector[key]; found && other != value {
			return fmt.Errorf("nodeSelector[%s]: %s, but RuntimeClass %s has %s", key, shorten(value), class.Name, shorten(other))
		}
		if selector == nil {
			selector = make(map[string]string)
		}
		selector[key] = value
	}
	spec.NodeSelector = selector
	spec.Tolerations = append(spec.Tolerations, class.Scheduling.Tolerations...)
	return nil
}

// usesDevices reports whether a pod has claims, or extended resources that devices may provide.
func usesDevices(spec *corev1.PodSpec) bool {
	return len(spec.ResourceClaims) > 0 || len(podclaims.ExtendedResources(&corev1.Pod{Spec: *spec})) > 0
}
