package e2e

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

var _ = Describe("A node that runs processes", Serial, func() {
	It("shows the logs of its pods, which have the rights of their namespace", func(ctx SpecContext) {
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
		Expect(here.log(ctx, "pod", &corev1.PodLogOptions{TailLines: ptr.To[int64](1)})).To(HavePrefix("NoNewPrivs"))
		Expect(here.log(ctx, "pod", &corev1.PodLogOptions{TailLines: ptr.To[int64](1), Timestamps: true})).To(HavePrefix(time.Now().UTC().Format("2006-")))
		Expect(here.log(ctx, "pod", &corev1.PodLogOptions{LimitBytes: ptr.To[int64](5)})).To(HaveLen(5))
		_, err = here.log(ctx, "pod", &corev1.PodLogOptions{Previous: true})
		Expect(err).To(MatchError(ContainSubstring("previous terminated container")))

		By("a log that is followed")
		here.addPod(ctx, "talker", restricted, tolerated(`for i in 1 2 3 4; do echo line $i; sleep 0.3; done`))
		here.expectPhase(ctx, corev1.PodRunning, "talker")
		Expect(here.log(ctx, "talker", &corev1.PodLogOptions{Follow: true})).To(Equal("line 1\nline 2\nline 3\nline 4\n"))

		By("what the node does not do")
		here.addPod(ctx, "probed", restricted, tolerated("sleep 600"), func(pod *corev1.Pod) {
			pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
		})
		here.expectPhase(ctx, corev1.PodFailed, "probed")
		found, err := here.pod(ctx, "probed")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Status.Message).To(ContainSubstring("spec.containers[main].livenessProbe: probes are not run"))
		Eventually(ctx, here.warnings).WithArguments("probed", "ProviderCreateFailed").Should(ContainElement(ContainSubstring("livenessProbe")))

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
		here.remove(ctx, "stubborn", 0)
		Eventually(s.processes).Should(BeEmpty())
		for _, name := range []string{"pod", "talker", "probed", "intolerant"} {
			here.remove(ctx, name, 0)
		}
		Eventually(s.files).Should(BeEmpty())
	}, SpecTimeout(10*time.Minute))
})
