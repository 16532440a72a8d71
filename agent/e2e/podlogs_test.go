// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// tolerated has a pod's command be a script of the node that runs processes.
func tolerated(script string) with {
	return func(pod *corev1.Pod) {
		withoutRestart(pod)
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dray.dev/processes", Operator: corev1.TolerationOpExists}}
		pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", script}
	}
}

// restricted is what the Pod Security Standard of this name asks for.
func restricted(pod *corev1.Pod) {
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		RunAsUser: ptr.To[int64](65534), RunAsNonRoot: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func (a *arena) log(ctx context.Context, pod string, options *corev1.PodLogOptions) (string, error) {
	stream, err := client.CoreV1().Pods(a.namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(stream)
	return string(text), errors.Join(err, stream.Close())
}

// upgrade asks for a stream of a pod as kubectl does, through the API server, and returns what it
// answers.
func (a *arena) upgrade(ctx context.Context, pod, request string) (status int, answer string, err error) {
	config := rest.CopyConfig(plane.Config())
	config.NextProtos = []string{"http/1.1"} // which has upgrades
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	defer caller.CloseIdleConnections()
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/%s", config.Host, a.namespace, pod, request)
	wanted, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, "", err
	}
	wanted.Header.Set("Connection", "Upgrade")
	wanted.Header.Set("Upgrade", "SPDY/3.1")
	wanted.Header.Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
	response, err := caller.Do(wanted)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), errors.Join(err, response.Body.Close())
}

// events are the messages of events of a pod that have a reason.
func (a *arena) events(ctx context.Context, pod, reason string) ([]string, error) {
	list, err := client.CoreV1().Events(a.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, event := range list.Items {
		messages = append(messages, event.Message)
	}
	return messages, nil
}

var _ = Describe("A node that runs processes", Serial, func() {
	It("shows the logs of its pods, which have the rights of their namespace", func(ctx SpecContext) {
		needsRoot()
		s := newSite(ctx)
		_, err := client.CoreV1().Namespaces().Patch(ctx, s.namespace, "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("a pod that does not tolerate the node's taint")
		here.addPod(ctx, "intolerant", restricted)

		By("a restricted pod")
		here.addPod(ctx, "pod", restricted, tolerated(`id -u; echo "kubeconfig:$KUBECONFIG"; echo failed >&2; grep -E '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status`))
		here.expectPhase(ctx, corev1.PodSucceeded, "pod")
		text, err := here.log(ctx, "pod", &corev1.PodLogOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Fields(text)).To(ConsistOf("65534", "kubeconfig:", "failed", "CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1"))
		// What the two streams have is not in one order each time, but the log stays as it is.
		lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		Expect(here.log(ctx, "pod", &corev1.PodLogOptions{TailLines: ptr.To[int64](1)})).To(Equal(lines[len(lines)-1] + "\n"))
		Expect(here.log(ctx, "pod", &corev1.PodLogOptions{TailLines: ptr.To[int64](1), Timestamps: true})).To(HavePrefix(time.Now().UTC().Format("2006-")))
		Expect(here.log(ctx, "pod", &corev1.PodLogOptions{LimitBytes: ptr.To[int64](5)})).To(HaveLen(5))
		_, err = here.log(ctx, "pod", &corev1.PodLogOptions{Previous: true})
		Expect(err).To(MatchError(ContainSubstring("previous terminated container")))

		By("a log that is followed")
		folder, err := os.MkdirTemp("", "talker")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, folder)
		Expect(os.Chmod(folder, 0o755)).To(Succeed()) //nolint:gosec // pods are nobody
		here.addPod(ctx, "talker", restricted, tolerated(fmt.Sprintf(`echo line 1; until test -e %s/go-on; do sleep 0.1; done; echo line 2; sleep 0.3; echo line 3`, folder)))
		here.expectPhase(ctx, corev1.PodRunning, "talker")
		stream, err := client.CoreV1().Pods(here.namespace).GetLogs("talker", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
		Expect(err).NotTo(HaveOccurred())
		followed := bufio.NewReader(stream)
		Expect(followed.ReadString('\n')).To(Equal("line 1\n"))
		Expect(os.WriteFile(filepath.Join(folder, "go-on"), nil, 0o600)).To(Succeed())
		Expect(io.ReadAll(followed)).To(BeEquivalentTo("line 2\nline 3\n"))
		Expect(stream.Close()).To(Succeed())

		By("what the node does not do")
		here.addPod(ctx, "hooked", restricted, tolerated("sleep 600"), func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
		})
		here.expectPhase(ctx, corev1.PodFailed, "hooked")
		found, err := here.pod(ctx, "hooked")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Status.Message).To(ContainSubstring("spec.containers[main].lifecycle: hooks and stop signals are not run"))
		Eventually(ctx, here.warnings).WithArguments("hooked", "ProviderCreateFailed").Should(ContainElement(ContainSubstring("lifecycle")))

		By("the node itself")
		node, err := client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Spec.Taints).To(ContainElement(corev1.Taint{Key: "dray.dev/processes", Effect: corev1.TaintEffectNoSchedule}))
		Expect(node.Status.NodeInfo.KubeletVersion).To(HavePrefix("v1.37."))
		Expect(node.Status.Addresses).To(ConsistOf(
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, corev1.NodeAddress{Type: corev1.NodeHostName, Address: s.node}))
		here.expectPhase(ctx, corev1.PodPending, "intolerant")

		By("pods that are deleted, by force too, with their logs")
		here.addPod(ctx, "stubborn", restricted, tolerated(`trap '' TERM; setsid sleep 600 & while :; do sleep 0.1; done`), func(pod *corev1.Pod) {
			pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		})
		here.expectPhase(ctx, corev1.PodRunning, "stubborn")
		here.remove(ctx, "stubborn", 600)
		Consistently(s.processes).ShouldNot(BeEmpty())

		By("what cannot be done with a pod that runs")
		for request, why := range map[string]string{
			"exec?command=id&container=main&stdout=true": "commands cannot be run in it", "attach?container=main&stdout=true": "it cannot be attached to",
			"portforward?ports=80": "no port of it is forwarded",
		} {
			for range 5 { // each on a connection of its own: the API server closes it
				status, answer, err := here.upgrade(ctx, "stubborn", request)
				Expect(err).NotTo(HaveOccurred())
				Expect(answer).To(ContainSubstring("the pod runs as processes of dray-agent's machine: "+why), request)
				Expect(status).To(Equal(http.StatusNotImplemented), request)
			}
		}
		here.remove(ctx, "stubborn", 0)
		Eventually(s.processes).Should(BeEmpty())
		for _, name := range []string{"pod", "talker", "hooked", "intolerant"} {
			here.remove(ctx, name, 0)
		}
		Eventually(s.files).Should(BeEmpty())
	}, SpecTimeout(10*time.Minute))

	It("runs init containers and probes, and limits what it can", func(ctx SpecContext) {
		needsRoot()
		s := newSite(ctx)
		exec := func(command string) *corev1.Probe {
			return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", command}}}, PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 60}
		}

		By("a pod that is ready when its probe says so, and starts again when another one does")
		here.addPod(ctx, "probed", restricted, tolerated("sleep 600"), func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1234)}
			mounts := []corev1.VolumeMount{{Name: "shared", MountPath: "/srv"}}
			pod.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			pod.Spec.InitContainers = []corev1.Container{*pod.Spec.Containers[0].DeepCopy()}
			first, main := &pod.Spec.InitContainers[0], &pod.Spec.Containers[0]
			first.Name, first.Command, first.VolumeMounts = "first", []string{"touch", "/srv/ready"}, mounts
			first.Resources = corev1.ResourceRequirements{}
			// However slow the machine is, the probe fails once: when it finds what the container wrote the first time that it ran.
			main.ReadinessProbe, main.LivenessProbe, main.VolumeMounts = exec("test -e /srv/ready"), exec("! mv /srv/first /srv/failed 2>/dev/null"), mounts
			main.Command = []string{"/bin/sh", "-c", "test -e /srv/failed || touch /srv/first; exec sleep 600"}
		})
		Eventually(ctx, here.pod).WithArguments("probed").Should(And(
			HaveField("Status.Conditions", ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue)))),
			HaveField("Status.InitContainerStatuses", ConsistOf(HaveField("Ready", true))),
			HaveField("Status.ContainerStatuses", ConsistOf(And(HaveField("RestartCount", BeEquivalentTo(1)), HaveField("State.Running", Not(BeNil())))))))
		Eventually(ctx, here.warnings).WithArguments("probed", "Unhealthy").Should(ContainElement(HavePrefix("Liveness probe failed")))
		Eventually(ctx, here.events).WithArguments("probed", "Killing").Should(ContainElement("Container main failed liveness probe, will be restarted"))

		By("a pod whose processes are killed")
		for _, pid := range s.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // some end with others
		}
		Eventually(ctx, here.pod).WithArguments("probed").Should(HaveField("Status.ContainerStatuses", ConsistOf(And(HaveField("RestartCount", BeEquivalentTo(2)), HaveField("Ready", true)))))

		By("a limit of memory")
		here.addPod(ctx, "limited", restricted, tolerated("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done"), func(pod *corev1.Pod) {
			if pod.Spec.Containers[0].Resources.Limits == nil {
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{}
			}
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("20Mi")
		})
		here.expectPhase(ctx, corev1.PodFailed, "limited")
		found, err := here.pod(ctx, "limited")
		Expect(err).NotTo(HaveOccurred())
		given, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
		if err == nil && strings.Contains(string(given), "memory") && os.Geteuid() == 0 {
			Expect(found.Status.ContainerStatuses).To(ConsistOf(HaveField("State.Terminated.Reason", "OOMKilled")))
		} else {
			Expect(found.Status.Message).To(ContainSubstring("spec.containers[main].resources.limits: memory: is not limited on this machine: "))
		}
		for _, name := range []string{"probed", "limited"} {
			here.remove(ctx, name, 0)
		}
		Eventually(s.files).Should(BeEmpty())
		Expect(s.processes()).To(BeEmpty())
	}, SpecTimeout(5*time.Minute))
})
