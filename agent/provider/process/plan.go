// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// maxHostname is the maximum length of a host name, in bytes.
const maxHostname = 63

// plan returns what a supervisor runs for a pod.
func (p *Provider) plan(ctx context.Context, pod *corev1.Pod) (*supervisor.Plan, error) {
	if err := checkFields(pod); err != nil {
		return nil, err
	}
	if err := checkNames(pod); err != nil {
		return nil, err
	}
	// As in container runtimes, a spec with errors matters only to pods with its devices: see addDevice.
	_ = p.registry.Refresh()
	plan := &supervisor.Plan{
		Pod: pod, Hostname: hostname(pod), HostNetwork: pod.Spec.HostNetwork,
		LogFolder: p.logFolder(pod), Limits: limitsOfPod(pod),
	}
	if cgroup.Check("") == nil {
		plan.Group = cgroup.Path(string(pod.UID))
	}
	if err := checkLimits(pod.Spec.Resources); err != nil {
		return nil, errdefs.InvalidInputf("spec.%w", err)
	}
	plan.Volumes = volumesOf(pod)
	var err error
	if plan.Inits, err = p.containersOf(ctx, pod, plan, "initContainers", pod.Spec.InitContainers); err != nil {
		return nil, err
	}
	plan.Containers, err = p.containersOf(ctx, pod, plan, "containers", pod.Spec.Containers)
	return plan, err
}

// containersOf returns what the supervisor runs for containers. field is their field in the pod's
// spec, for errors.
func (p *Provider) containersOf(ctx context.Context, pod *corev1.Pod, plan *supervisor.Plan, field string, containers []corev1.Container) ([]supervisor.Container, error) {
	var out []supervisor.Container
	for i := range containers {
		container := &containers[i]
		if err := checkLimits(&container.Resources); err != nil {
			return nil, errdefs.InvalidInputf("spec.%s[%s].%w", field, container.Name, err)
		}
		var devices []string
		var err error
		if p.options.Devices != nil {
			if devices, err = p.options.Devices(ctx, pod, container.Name); err != nil {
				return nil, fmt.Errorf("container %s: devices: %w", container.Name, err)
			}
		}
		command, err := p.containerOf(pod, container, plan.Hostname, devices)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", container.Name, err)
		}
		if command.Mounts, err = p.mountsOf(pod, container); err != nil {
			return nil, errdefs.InvalidInputf("spec.%s[%s].%w", field, container.Name, err)
		}
		command.Limits, command.Grouped = limitsOf(container.Resources), plan.Group != ""
		out = append(out, *command)
	}
	return out, nil
}

// checkNames refuses names that are not safe as part of a path. The API server refuses such names,
// too.
func checkNames(pod *corev1.Pod) error {
	names := []string{pod.Namespace, pod.Name, string(pod.UID)}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, container.Name)
	}
	for i := range pod.Spec.Volumes {
		names = append(names, pod.Spec.Volumes[i].Name)
	}
	for _, name := range names {
		if problems := content.IsPathSegmentName(name); len(problems) > 0 || name == "" {
			return errdefs.InvalidInputf("%q: is not a name for files: %q", name, problems)
		}
	}
	return nil
}

// hostname returns the host name of a pod: the field of its spec, or else its name, shortened if
// necessary.
func hostname(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	}
	return pod.Name[:min(len(pod.Name), maxHostname)]
}
