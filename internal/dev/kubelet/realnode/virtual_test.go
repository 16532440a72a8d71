// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// TestVirtualNode runs the same pods on the node and on one of dray-agent, whose containers are
// processes of this machine. What users and controllers read of them in the end has to be the same:
// statuses, Events and logs.
func TestVirtualNode(t *testing.T) {
	virtual := startVirtual(t)
	text, err := os.ReadFile("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	seen := make(map[string]map[string]string)
	for _, name := range []string{node.Name(), virtual} {
		t.Run(name, func(t *testing.T) { seen[name] = newSpace(t).seenOn(name, documents) })
	}
	kubelet := seen[node.Name()]
	if len(kubelet) != len(documents) {
		t.Errorf("%d of %d pods were seen", len(kubelet), len(documents))
	}
	for _, pod := range slices.Sorted(maps.Keys(kubelet)) {
		if got, want := seen[virtual][pod], kubelet[pod]; got != want {
			t.Errorf("pod %s: kubelet has\n%s\nand the virtual node\n%s", pod, want, got)
		}
	}
}

// startVirtual starts a virtual node, and returns its name.
func startVirtual(t *testing.T) string {
	t.Helper()
	const name = "virtual"
	folder, err := os.MkdirTemp("", "virtual") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // users of pods pass through
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "hardware.yaml"), []byte(hardware), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := plane.Launch("dray-agent-"+name, filepath.Join(binaries, "dray-agent"), "run", "--run-pods", "--device-plugin=false", "--simulate="+filepath.Join(folder, "hardware.yaml"),
		"--node-name="+name, "--kubeconfig="+plane.Kubeconfig(), "--listen=", "--pods-listen=127.0.0.1:0", "--client-ca-file="+filepath.Join(plane.Folder(), "ca.crt"),
		"--kubelet-dir="+folder, "--cdi-dir="+filepath.Join(folder, "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := program.Stop(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	until(t, "the virtual node is ready", func() bool {
		found, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(found.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	return name
}

// seenOn runs pods on a node, all at once, and returns what there is to see of each in the end.
func (s *space) seenOn(on string, documents []string) map[string]string {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	watcher, err := client.CoreV1().Pods(s.name).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	pods, done := make(map[string]*corev1.Pod), make(map[string]bool)
	for _, document := range documents {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte("apiVersion: v1\nkind: Pod\n"+document), nil, nil)
		if err != nil {
			s.Fatalf("%v in\n%s", err, document)
		}
		pod := object.(*corev1.Pod)
		prepare(pod, on)
		if pods[pod.Name], err = client.CoreV1().Pods(s.name).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	for late := time.After(2 * patience); len(done) < len(pods); {
		select {
		case event, open := <-watcher.ResultChan():
			pod, is := event.Object.(*corev1.Pod)
			if !open || !is {
				s.Fatalf("the watch ended with %v", event.Object)
			}
			if done[pod.Name] {
				continue
			}
			pods[pod.Name] = pod
			if event.Type == "DELETED" || s.isOver(pod) {
				done[pod.Name] = true
			}
		case <-late:
			s.Fatalf("not over on %s: all but %v", on, slices.Sorted(maps.Keys(done)))
		}
	}
	time.Sleep(15 * time.Second) // until Events have arrived, of which many are told at once
	out := make(map[string]string)
	for name, pod := range pods {
		out[name] = strings.Join(slices.Concat(statusLines(pod), s.eventLines(pod), s.logLines(pod)), "\n")
	}
	return out
}

// prepare gives a pod what all of them have.
func prepare(pod *corev1.Pod, on string) {
	grace := pod.Spec.TerminationGracePeriodSeconds
	offline(&pod.Spec)
	pod.Spec.TerminationGracePeriodSeconds = cmp.Or(grace, pod.Spec.TerminationGracePeriodSeconds)
	pod.Spec.NodeName, pod.Spec.DNSPolicy = on, corev1.DNSDefault
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if pod.Spec.SecurityContext == nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](65534), RunAsGroup: ptr.To[int64](65534)}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if containers[i].Command == nil {
				containers[i].Command = []string{"/bin/busybox", "sh", "-c"}
			}
		}
	}
}

// isOver tells whether a pod goes no further. It deletes a pod that is to be deleted.
func (s *space) isOver(pod *corev1.Pod) bool {
	s.Helper()
	if after, is := pod.Annotations["delete"]; is {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if ready && pod.DeletionTimestamp == nil {
			grace, err := strconv.ParseInt(after, 10, 64)
			if err != nil {
				s.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // until the shell has its trap
			if err := client.CoreV1().Pods(s.name).Delete(s.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
				s.Fatal(err)
			}
		}
		return false
	}
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	switch pod.Annotations["until"] {
	case "backoff":
		return slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
		})
	case "restarted":
		return slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool { return c.State.Running != nil && c.RestartCount == 1 })
	}
	// At its deadline, kubelet says Failed a moment before the containers have ended.
	running := slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	return isEnd(pod.Status.Phase) && !running
}

func isEnd(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// statusLines are what a status says, without times, addresses, what images are, and signals, which kubelet does not know.
func statusLines(pod *corev1.Pod) []string {
	status := &pod.Status
	out := []string{fmt.Sprintf("%s %s %s %s", status.Phase, status.Reason, status.Message, status.QOSClass)}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && isEnd(status.Phase) {
			c = corev1.PodCondition{Type: c.Type, ObservedGeneration: c.ObservedGeneration} // kubelet does not tell at once that it is False
		}
		out = append(out, fmt.Sprintf("%s %s %s %s, of the pod's generation: %v", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration == status.ObservedGeneration))
	}
	slices.Sort(out[1:])
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		state, restarts := stateLine(c.State), fmt.Sprint(c.RestartCount)
		// Kubelet does not always tell of the first pause. Each is twice as long as the one before.
		if pause := fmt.Sprintf("back-off %s ", 10*time.Second<<max(c.RestartCount-1, 0)); c.RestartCount > 0 && strings.Contains(state, pause) {
			state, restarts = strings.Replace(state, pause, "back-off ", 1), "some, for which it pauses so long"
		}
		out = append(out, fmt.Sprintf("%s restarts=%s ready=%v started=%v: %s, before: %s", c.Name, restarts, c.Ready, ptr.Deref(c.Started, false), state, stateLine(c.LastTerminationState)))
	}
	return out
}

func stateLine(state corev1.ContainerState) string {
	switch {
	case state.Running != nil:
		return "runs"
	case state.Waiting != nil:
		return "waits " + state.Waiting.Reason + " " + withoutUIDs(state.Waiting.Message)
	case state.Terminated != nil && state.Terminated.Reason == "StartError": // it is the runtime's, as its message
		return fmt.Sprintf("ended %d StartError", state.Terminated.ExitCode)
	case state.Terminated != nil:
		return fmt.Sprintf("ended %d %s %s", state.Terminated.ExitCode, state.Terminated.Reason, state.Terminated.Message)
	}
	return "-"
}

var (
	uids      = regexp.MustCompile(`_[a-z0-9-]+\([0-9a-f-]{36}\)`) // with the namespace
	addresses = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)
)

func withoutUIDs(text string) string { return uids.ReplaceAllString(text, "_NAMESPACE(UID)") }

// untold are Events that the nodes do not have in common: those of images, and of virtual nodes.
var untold = []string{"Pulled", "Created", "ProviderCreateSuccess", "ProviderDeleteSuccess"}

// eventLines are the Events of a pod. How often each happened is a matter of time.
func (s *space) eventLines(pod *corev1.Pod) []string {
	s.Helper()
	list, err := client.CoreV1().Events(s.name).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, event := range list.Items {
		message := addresses.ReplaceAllString(withoutUIDs(event.Message), "ADDRESS")
		if event.Reason == "Failed" {
			message, _, _ = strings.Cut(message, ":")
		}
		early := event.Reason == "BackOff" && pod.Annotations["until"] == "restarted"
		if !early && !slices.Contains(untold, event.Reason) {
			out = append(out, fmt.Sprintf("Event %s %s of %s: %s", event.Type, event.Reason, event.InvolvedObject.FieldPath, strings.TrimSpace(message)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// logLines are the logs of containers that ended, if the pod is still there. Two streams have no order.
func (s *space) logLines(pod *corev1.Pod) []string {
	s.Helper()
	var out []string
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := c.State.Terminated; pod.DeletionTimestamp != nil || ended == nil || ended.Reason == "StartError" {
			continue
		}
		text, err := client.CoreV1().Pods(s.name).GetLogs(pod.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		out = append(out, fmt.Sprintf("log of %s: %.200q, and in all %x", c.Name, text, sha256.Sum256(text)))
	}
	return out
}
