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

// LogFile is the path of the log of a container's latest start, or of the one before, in the
// format of the CRI. The pod is one that GetPod returned; the error says why there is none.
func (p *Provider) LogFile(pod *corev1.Pod, container string, previous bool) (string, error) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name != container {
			continue
		}
		start := int(status.RestartCount)
		switch waits := status.State.Waiting != nil; {
		case waits && start == 0:
			return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, status.State.Waiting.Reason)
		case waits || previous: // one that waits to start again counts that start already
			start--
		}
		if start < 0 {
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
		}
		return supervisor.LogFile(filepath.Join(p.logFolder(pod), container), start), nil
	}
	return "", fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
}

// logFolder is where the logs of a pod are.
func (p *Provider) logFolder(pod *corev1.Pod) string {
	return filepath.Join(p.options.LogFolder, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID))
}
