package process

import (
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// command is what a container is as a process.
type command struct {
	args []string
	env  []string
	dir  string
}

// serviceAccountPath is where pods get a token that the API server adds by itself. Processes
// do without.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// checkPod refuses what no container of the pod can have.
func checkPod(pod *corev1.Pod) error {
	switch {
	case len(pod.Spec.InitContainers) > 0:
		return errdefs.InvalidInput("initContainers: processes have none")
	case pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.RunAsUser != nil && *pod.Spec.SecurityContext.RunAsUser != int64(os.Getuid()):
		return errdefs.InvalidInputf("securityContext.runAsUser: %d: processes run as user %d", *pod.Spec.SecurityContext.RunAsUser, os.Getuid())
	}
	return nil
}

// commandOf is what to run for a container with these CDI devices.
func commandOf(pod *corev1.Pod, container *corev1.Container, registry *cdi.Cache, devices []string) (*command, error) {
	switch {
	case len(container.Command) == 0:
		return nil, errdefs.InvalidInput("command: is required, because images are not run")
	case len(container.EnvFrom) > 0:
		return nil, errdefs.InvalidInput("envFrom: processes have no ConfigMaps and Secrets")
	case container.SecurityContext != nil && container.SecurityContext.Privileged != nil && *container.SecurityContext.Privileged:
		return nil, errdefs.InvalidInput("securityContext.privileged: processes have no more rights than the provider")
	}
	for _, mount := range container.VolumeMounts {
		if mount.MountPath != serviceAccountPath {
			return nil, errdefs.InvalidInputf("volumeMounts: %s: mounting needs root", mount.MountPath)
		}
	}
	out := &command{dir: container.WorkingDir}
	variables := make(map[string]string)
	for _, variable := range container.Env {
		value, err := valueOf(pod, variable, variables)
		if err != nil {
			return nil, err
		}
		variables[variable.Name] = value
		out.env = append(out.env, variable.Name+"="+value)
	}
	// Devices add theirs afterwards, as container runtimes do.
	out.args = expandAll(slices.Concat(container.Command, container.Args), variables)
	for _, name := range devices {
		if err := out.addDevice(registry, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// valueOf is the value of a variable, given those before it.
func valueOf(pod *corev1.Pod, variable corev1.EnvVar, before map[string]string) (string, error) {
	if variable.ValueFrom == nil {
		return expand(variable.Value, before), nil
	}
	if field := variable.ValueFrom.FieldRef; field != nil {
		switch field.FieldPath {
		case "metadata.name":
			return pod.Name, nil
		case "metadata.namespace":
			return pod.Namespace, nil
		case "metadata.uid":
			return string(pod.UID), nil
		case "spec.nodeName":
			return pod.Spec.NodeName, nil
		}
	}
	return "", errdefs.InvalidInputf("env: %s: processes know name, namespace, UID and node of their pod only", variable.Name)
}

// addDevice applies the edits of a CDI device, and those that all devices of its spec have.
func (c *command) addDevice(registry *cdi.Cache, name string) error {
	device := registry.GetDevice(name)
	if device == nil {
		return fmt.Errorf("CDI device %s: no spec has it", name)
	}
	for _, edits := range []*cdispec.ContainerEdits{&device.GetSpec().ContainerEdits, &device.ContainerEdits} {
		if err := check(edits); err != nil {
			return errdefs.InvalidInputf("CDI device %s: %w", name, err)
		}
		c.env = append(c.env, edits.Env...)
	}
	return nil
}

// check refuses edits that a process cannot have.
func check(edits *cdispec.ContainerEdits) error {
	for _, mount := range edits.Mounts {
		if mount.HostPath != mount.ContainerPath {
			return fmt.Errorf("mount of %s to %s: mounting needs root", mount.HostPath, mount.ContainerPath)
		}
	}
	for _, node := range edits.DeviceNodes {
		if node.HostPath != "" && node.HostPath != node.Path {
			return fmt.Errorf("device node %s as %s: making device nodes needs root", node.HostPath, node.Path)
		}
	}
	switch {
	case len(edits.Hooks) > 0:
		return fmt.Errorf("hook %s: there is no container to run it for", edits.Hooks[0].HookName)
	case len(edits.NetDevices) > 0:
		return fmt.Errorf("network device %s: processes have no network namespace", edits.NetDevices[0].HostInterfaceName)
	case len(edits.AdditionalGIDs) > 0:
		return fmt.Errorf("group %d: changing groups needs root", edits.AdditionalGIDs[0])
	case edits.IntelRdt != nil:
		return errors.New("cache allocation: needs root")
	}
	return nil
}
