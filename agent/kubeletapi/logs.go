// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node/api"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// serveLogs answers with the log of a container.
func (s *server) serveLogs(w http.ResponseWriter, r *http.Request) {
	options, err := api.ParseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), api.StatusOf(err))
		return
	}
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	pod, err := s.pods.GetPod(r.Context(), namespace, name)
	switch {
	case errdefs.IsNotFound(err) || err == nil && pod == nil:
		http.Error(w, fmt.Sprintf("pod %q does not exist", name), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case !slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool { return c.Name == container }):
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, name), http.StatusNotFound)
		return
	}
	path, err := s.pods.LogFile(pod, container, options.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &flusher{w: w, control: http.NewResponseController(w)}
	err = logs.ReadLogs(r.Context(), path, container, readOptions(options), &statusRuntime{pods: s.pods, pod: pod}, out.writerFor(options, corev1.LogStreamStderr), out.writerFor(options, corev1.LogStreamStdout))
	switch {
	case err == nil || r.Context().Err() != nil:
	case errors.Is(err, fs.ErrNotExist) && !out.began:
		http.Error(w, fmt.Sprintf("container %q of pod %q has no log", container, name), http.StatusNotFound)
	default:
		klog.FromContext(r.Context()).Error(err, "Log of a container is not complete", "pod", klog.KObj(pod), "container", container)
		if !out.began {
			http.Error(w, "the log cannot be read", http.StatusInternalServerError)
		}
	}
}

func readOptions(options *corev1.PodLogOptions) *logs.LogOptions {
	out := &logs.LogOptions{TailLines: options.TailLines, LimitBytes: options.LimitBytes, Follow: options.Follow, Timestamp: options.Timestamps}
	if options.SinceSeconds != nil {
		out.Since = time.Now().Add(-time.Duration(*options.SinceSeconds) * time.Second)
	}
	if options.SinceTime != nil {
		out.Since = options.SinceTime.Time
	}
	return out
}

// statusRuntime tells the log reader of k8s.io/cri-client whether a container still runs, so that
// following a log ends. The log reader calls no other method of the embedded nil interface.
type statusRuntime struct {
	criapi.RuntimeService
	pods Pods
	pod  *corev1.Pod
}

// ContainerStatus says that the container runs as long as the pod's status says so, and the
// container was not restarted.
func (s *statusRuntime) ContainerStatus(ctx context.Context, container string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	status := &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED}
	pod, err := s.pods.GetPod(ctx, s.pod.Namespace, s.pod.Name)
	if err == nil && pod != nil && pod.UID == s.pod.UID {
		before, now := statusOf(s.pod, container), statusOf(pod, container)
		if before != nil && now != nil && now.State.Running != nil && now.RestartCount == before.RestartCount {
			status.State = runtimeapi.ContainerState_CONTAINER_RUNNING
		}
	}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container {
			return &status
		}
	}
	return nil
}

// flusher flushes the response after each write, so that a client that follows a log sees lines at
// once.
type flusher struct {
	w       io.Writer
	control *http.ResponseController
	began   bool
}

func (f *flusher) Write(content []byte) (int, error) {
	f.began = true
	n, err := f.w.Write(content)
	return n, errors.Join(err, f.control.Flush())
}

// writerFor returns where one stream of the log is written. It discards the stream if the client
// asked for the other one only.
func (f *flusher) writerFor(options *corev1.PodLogOptions, other string) io.Writer {
	if options.Stream != nil && *options.Stream == other {
		return io.Discard
	}
	return f
}
