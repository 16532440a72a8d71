// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletscript runs a script on a kubelet, or on a model of one, and compares what both say.
// The script's file says what its lines mean.
package kubeletscript

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Kubelet is what a script is run on. Devices are by container.
type Kubelet interface {
	Admit(*corev1.Pod) (map[string][]string, error)
	// List is by name of the pod. A container without devices is nil.
	List() map[string]map[string][]string
	Restart()
	Know(*corev1.Pod)
	Ready()
	End(*corev1.Pod)
}

// Run runs a script whose pods want devices of a resource. NewPod makes what the kubelet takes for a pod. The error says
// which answer is another one than the script's.
func Run(script, resourceName string, newPod func(*corev1.Pod) *corev1.Pod, kubelet Kubelet) error {
	r := &run{kubelet: kubelet, pods: make(map[string]*corev1.Pod), names: make(map[string]string)}
	var said, want []string
	for number, line := range strings.Split(script+"\nend of script", "\n") {
		if expected, is := strings.CutPrefix(line, "> "); is || line == ">" {
			want = append(want, strings.TrimSpace(expected))
			continue
		}
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if !slices.Equal(said, want) {
			return fmt.Errorf("before line %d: it says %q, want %q", number+1, said, want)
		}
		want = nil
		if line == "end of script" {
			return nil
		}
		if words[0] == "pod" {
			r.pods[words[1]] = newPod(pod(words[1], resourceName, words[2:]))
			said = nil
			continue
		}
		var err error
		if said, err = r.do(words); err != nil {
			return fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	return nil
}

// run is a script that runs.
type run struct {
	kubelet Kubelet
	pods    map[string]*corev1.Pod
	names   map[string]string // of devices
}

func (r *run) do(words []string) ([]string, error) {
	numbers := words[len(words)-1] == "numbers"
	var named *corev1.Pod
	if len(words) > 1 && words[1] != "numbers" {
		if named = r.pods[words[1]]; named == nil {
			return nil, fmt.Errorf("no pod %s", words[1])
		}
	}
	switch words[0] {
	case "list":
		return r.listed(numbers), nil
	case "restart":
		r.kubelet.Restart()
		return nil, nil
	case "ready":
		r.kubelet.Ready()
		return nil, nil
	}
	if named == nil {
		return nil, fmt.Errorf("%s: unknown, or without a pod", words[0])
	}
	switch words[0] {
	case "admit":
		devices, err := r.kubelet.Admit(named)
		if err != nil {
			return []string{"refused"}, nil //nolint:nilerr // what it says
		}
		return []string{words[1] + ": " + r.text(devices, numbers)}, nil
	case "know":
		r.kubelet.Know(named)
	case "end":
		r.kubelet.End(named)
	default:
		return nil, fmt.Errorf("%s: unknown", words[0])
	}
	return nil, nil
}

func (r *run) listed(numbers bool) []string {
	listed := r.kubelet.List()
	if len(listed) == 0 {
		return []string{"nothing"}
	}
	byName := make(map[string]string)
	for name, pod := range r.pods {
		byName[pod.Name] = name
	}
	var out []string
	for name, devices := range listed {
		short := byName[name]
		if short == "" {
			short = name
		}
		out = append(out, strings.TrimSpace(short+": "+r.text(devices, numbers)))
	}
	slices.Sort(out)
	return out
}

// text says what containers have. Those that want nothing, and have nothing, are left out.
func (r *run) text(devices map[string][]string, numbers bool) string {
	var out []string
	for _, container := range slices.Sorted(maps.Keys(devices)) {
		ids := devices[container]
		switch {
		case len(ids) == 0:
		case numbers:
			out = append(out, container+"="+strconv.Itoa(len(ids)))
		default:
			out = append(out, container+"="+strings.Join(r.named(ids), ","))
		}
	}
	return strings.Join(out, " ")
}

func (r *run) named(ids []string) []string {
	var out []string
	for _, id := range ids {
		if r.names[id] == "" {
			r.names[id] = "d" + strconv.Itoa(len(r.names)+1)
		}
		out = append(out, r.names[id])
	}
	slices.Sort(out)
	return out
}

// pod makes a pod of words like main=1.
func pod(name, resourceName string, words []string) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, word := range words {
		container, amount, _ := strings.Cut(word, "=")
		wants := corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(amount)}
		made := corev1.Container{Name: container, Image: "example.com/" + container, Resources: corev1.ResourceRequirements{Limits: wants, Requests: wants}}
		switch container {
		case "init":
			out.Spec.InitContainers = append(out.Spec.InitContainers, made)
		case "sidecar":
			made.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			out.Spec.InitContainers = append(out.Spec.InitContainers, made)
		default:
			out.Spec.Containers = append(out.Spec.Containers, made)
		}
	}
	if len(out.Spec.Containers) == 0 {
		out.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/main"}}
	}
	return out
}
