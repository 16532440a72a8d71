// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/downward"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// standard is the base environment of every process. Variables of the pod and of devices are added
// later. Nothing is inherited from the agent.
func standard(hostname string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/",
		"HOSTNAME=" + hostname,
	}
}

// containerOf returns what the supervisor runs for a container that has these CDI devices.
func (p *Provider) containerOf(pod *corev1.Pod, container *corev1.Container, hostname string, devices []string) (*supervisor.Container, error) {
	if len(container.Command) == 0 {
		return nil, errdefs.InvalidInput("command: is required, because images are not run")
	}
	identity, err := p.identityOf(pod, container)
	if err != nil {
		return nil, err
	}
	context := ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	out := &supervisor.Container{
		Name: container.Name, Dir: container.WorkingDir, Identity: identity,
		Env: standard(hostname), ReadOnly: ptr.Deref(context.ReadOnlyRootFilesystem, false),
	}
	variables := make(map[string]string)
	for _, variable := range container.Env {
		value, err := valueOf(pod, variable, variables)
		if err != nil {
			return nil, err
		}
		variables[variable.Name] = value
		out.Env = append(out.Env, variable.Name+"="+value)
	}
	// References are expanded before devices add their variables, as in container runtimes.
	out.Args = expandAll(slices.Concat(container.Command, container.Args), variables)
	for _, name := range devices {
		if err := addDevice(out, p.registry, name); err != nil {
			return nil, err
		}
	}
	return out, p.checkIdentity(out.Identity)
}

// valueOf returns the value of a variable, in which references to earlier variables are expanded.
func valueOf(pod *corev1.Pod, variable corev1.EnvVar, before map[string]string) (string, error) {
	if variable.ValueFrom == nil {
		return expand(variable.Value, before), nil
	}
	field := variable.ValueFrom.FieldRef
	switch {
	case field == nil:
		return "", errdefs.InvalidInputf("env: %s: processes know fields of their pod only", variable.Name)
	case strings.HasPrefix(field.FieldPath, "status."):
		return "", errdefs.InvalidInputf("env: %s: fieldRef %q: the status of the pod has no addresses", variable.Name, field.FieldPath)
	}
	value, err := downward.Field(pod, field.FieldPath)
	if err != nil {
		return "", errdefs.InvalidInputf("env: %s: %w", variable.Name, err)
	}
	return value, nil
}

// addDevice applies the container edits of a CDI device and of its spec.
func addDevice(c *supervisor.Container, registry *cdi.Cache, name string) error {
	device := registry.GetDevice(name)
	if device == nil {
		return errors.Join(fmt.Errorf("CDI device %s: no spec has it", name), brokenSpecs(registry))
	}
	for _, edits := range []*cdispec.ContainerEdits{&device.GetSpec().ContainerEdits, &device.ContainerEdits} {
		if err := check(edits); err != nil {
			return errdefs.InvalidInputf("CDI device %s: %w", name, err)
		}
		c.Env = append(c.Env, edits.Env...)
		c.Identity.Groups = append(c.Identity.Groups, edits.AdditionalGIDs...)
	}
	return nil
}

// brokenSpecs returns an error for each CDI spec that cannot be read, or defines what another one does.
func brokenSpecs(registry *cdi.Cache) error {
	found := registry.GetErrors()
	var out []error
	for _, path := range slices.Sorted(maps.Keys(found)) {
		out = append(out, fmt.Errorf("%s: %w", path, errors.Join(found[path]...)))
	}
	return errors.Join(out...)
}

// check returns an error for container edits that cannot be applied to a process.
func check(edits *cdispec.ContainerEdits) error {
	for _, mount := range edits.Mounts {
		if mount.HostPath != mount.ContainerPath {
			return fmt.Errorf("mount of %s to %s: processes see files where the machine has them", mount.HostPath, mount.ContainerPath)
		}
	}
	for _, node := range edits.DeviceNodes {
		if node.HostPath != "" && node.HostPath != node.Path {
			return fmt.Errorf("device node %s as %s: processes see devices where the machine has them", node.HostPath, node.Path)
		}
	}
	switch {
	case len(edits.Hooks) > 0:
		return fmt.Errorf("hook %s: there is no container to run it for", edits.Hooks[0].HookName)
	case len(edits.NetDevices) > 0:
		return fmt.Errorf("network device %s: network devices are not moved to processes", edits.NetDevices[0].HostInterfaceName)
	case edits.IntelRdt != nil:
		return errors.New("cache allocation: is not done for processes")
	}
	return nil
}
