// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// LogFile returns the path of a container's log file, in CRI format. It is that of the latest
// start, or with previous of the one before. The pod must come from GetPod. If there is no log, the
// error says why.
func (p *Provider) LogFile(pod *corev1.Pod, container string, previous bool) (string, error) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name != container {
			continue
		}
		start, waits, ranBefore := int(status.RestartCount), status.State.Waiting != nil, status.LastTerminationState.Terminated != nil
		switch {
		case previous && !ranBefore:
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
		case waits && !ranBefore:
			return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, status.State.Waiting.Reason)
		case previous && !waits: // while a container waits for a restart, its latest start is the previous one
			start--
		}
		return supervisor.LogFile(filepath.Join(p.logFolder(pod), container), start), nil
	}
	return "", fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
}

// logFolder returns the folder with the logs of a pod.
func (p *Provider) logFolder(pod *corev1.Pod) string {
	return filepath.Join(p.options.LogFolder, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID))
}
