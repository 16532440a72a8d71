// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// failing is a probe that never succeeds.
func failing() *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/false"}}}, PeriodSeconds: 1, FailureThreshold: 1}
}

// onMain sets fields of the only container.
func onMain(set func(*corev1.Container)) with {
	return func(pod *corev1.Pod) { set(&pod.Spec.Containers[0]) }
}

// volume adds a volume that nothing mounts.
func volume(source corev1.VolumeSource) with {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
}

// notHonoured are pods that the API server accepts with a field that processes cannot have, by how the
// refusal begins.
var notHonoured = map[string]with{
	"spec.containers[main].lifecycle: hooks and stop signals are not run or sent": onMain(func(c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/true"}}}}
	}),
	"spec.containers[main].resources.limits: only the use of CPU and memory is limited": onMain(func(c *corev1.Container) {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceEphemeralStorage: {}} // the scheduler knows of none on the node
	}),
	"spec.containers[main].securityContext.allowPrivilegeEscalation: processes get no new privileges": onMain(func(c *corev1.Container) {
		c.SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
	}),
	"spec.containers[main].securityContext.capabilities.add: processes have no capabilities": onMain(func(c *corev1.Container) {
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	}),
	"spec.containers[main].securityContext.seccompProfile: the type must be RuntimeDefault": onMain(func(c *corev1.Container) {
		c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}),
	"spec.containers[main].securityContext.appArmorProfile: processes run without a security module": onMain(func(c *corev1.Container) {
		c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}),
	"spec.containers[main].securityContext.seLinuxOptions: processes run without a security module": onMain(func(c *corev1.Container) {
		c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0"}
	}),
	"spec.containers[main].stdin: processes have no input and no terminal": onMain(func(c *corev1.Container) { c.Stdin = true }),
	"spec.containers[main].tty: processes have no input and no terminal":   onMain(func(c *corev1.Container) { c.TTY = true }),
	"spec.containers[main].envFrom: processes have no ConfigMaps, Secrets": onMain(func(c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}
	}),
	"spec.containers[main].terminationMessagePath: no message is read from a file": onMain(func(c *corev1.Container) { c.TerminationMessagePath = "/end" }),
	"spec.containers[main].ports.hostPort: 80: no port of the machine leads to a pod without hostNetwork": onMain(func(c *corev1.Container) {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}),
	"spec.volumes[v].hostPath: processes have volumes of the kind emptyDir only":  volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
	"spec.volumes[v].secret: processes have volumes of the kind emptyDir only":    volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
	"spec.volumes[v].configMap: processes have volumes of the kind emptyDir only": volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}),
	"spec.volumes[v].emptyDir.sizeLimit: 1Gi: the use of the disk is not limited": volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Gi"))}}),
	"spec.hostPID: each container has its own PID namespace":                      func(pod *corev1.Pod) { pod.Spec.HostPID = true },
	"spec.hostIPC: each pod has its own IPC namespace":                            func(pod *corev1.Pod) { pod.Spec.HostIPC = true },
	"spec.shareProcessNamespace: each container has its own PID namespace":        func(pod *corev1.Pod) { pod.Spec.ShareProcessNamespace = ptr.To(true) },
	"spec.hostUsers: the pod's users are those of the machine":                    func(pod *corev1.Pod) { pod.Spec.HostUsers = ptr.To(false) },
	"spec.hostAliases: processes resolve names as the machine does": func(pod *corev1.Pod) {
		pod.Spec.HostAliases = []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{"a"}}}
	},
	"spec.dnsConfig: processes resolve names as the machine does": func(pod *corev1.Pod) {
		pod.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"example.com"}}
	},
	"spec.readinessGates: the node would call the pod ready without them": func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/ready"}}
	},
	"spec.securityContext.sysctls: no settings of the kernel are changed": func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}}
	},
	"command: is required, because images are not run": onMain(func(c *corev1.Container) { c.Command = nil }),
	"securityContext.runAsUser: 0 is root's, and dray-agent was not told that pods may be root": onMain(func(c *corev1.Container) {
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsNonRoot = ptr.To[int64](0), nil
	}),
}

// needsRoot skips a test of what a dray-agent of another user refuses: users, groups and limits of processes.
func needsRoot() {
	GinkgoHelper()
	if user := os.Geteuid(); user != 0 {
		Skip(fmt.Sprintf("needs root, to give users and groups to processes; this is user %d", user))
	}
}

var _ = Describe("A pod as processes", Serial, func() {
	It("that says what they cannot have never runs, and its status names the field", func(ctx SpecContext) {
		needsRoot()
		s := newSite(ctx)
		names := make(map[string]string)
		for i, want := range slices.Sorted(maps.Keys(notHonoured)) {
			names[want] = nth("pod", i)
			here.addPod(ctx, names[want], restricted, tolerated("sleep 600"), notHonoured[want])
		}
		for want, name := range names {
			here.expectPhase(ctx, corev1.PodFailed, name)
			pod, err := here.pod(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(pod.Status.Message).To(ContainSubstring(want))
			_, err = here.log(ctx, name, &corev1.PodLogOptions{Container: "main"})
			Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("container %q in pod %q is not available", "main", name))))
			Expect(pod.Status.ContainerStatuses).NotTo(ContainElement(HaveField("State.Running", Not(BeNil()))), want)
			here.remove(ctx, name, 0)
		}
		Expect(s.processes()).To(BeEmpty())
		Eventually(s.files).Should(BeEmpty())
	}, SpecTimeout(5*time.Minute))

	It("that sets much else has all of it", func(ctx SpecContext) {
		needsRoot()
		s := newSite(ctx)

		By("the user, groups and files of a restricted pod with a group for its files")
		here.addPod(ctx, "rights", restricted, tolerated(`id -u; id -g; id -G; touch /written 2>/dev/null || echo read-only; env | sort | cut -d= -f1`), func(pod *corev1.Pod) {
			pod.Spec.AutomountServiceAccountToken = ptr.To(true)
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), FSGroup: ptr.To[int64](1234), SupplementalGroups: []int64{99}}
			context := pod.Spec.Containers[0].SecurityContext
			context.RunAsGroup, context.ReadOnlyRootFilesystem = ptr.To[int64](65534), ptr.To(true)
		})
		here.expectPhase(ctx, corev1.PodSucceeded, "rights")
		Expect(here.log(ctx, "rights", &corev1.PodLogOptions{})).To(MatchRegexp(`^65534\n65534\n65534 (99 1234|1234 99)\nread-only\nHOME\nHOSTNAME\nPATH\nPWD\n`))

		By("probes that fail")
		for name, set := range map[string]func(c *corev1.Container, probe *corev1.Probe){
			"startup":  func(c *corev1.Container, probe *corev1.Probe) { c.StartupProbe = probe },
			"liveness": func(c *corev1.Container, probe *corev1.Probe) { c.LivenessProbe = probe },
		} {
			here.addPod(ctx, name, restricted, tolerated("exec sleep 600"), func(pod *corev1.Pod) { set(&pod.Spec.Containers[0], failing()) })
			here.expectPhase(ctx, corev1.PodFailed, name)
		}
		here.addPod(ctx, "readiness", restricted, tolerated("exec sleep 600"), func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = failing() })
		here.expectPhase(ctx, corev1.PodRunning, "readiness")
		Eventually(ctx, here.warnings).WithArguments("readiness", "Unhealthy").Should(ContainElement(HavePrefix("Readiness probe failed")))

		By("a deadline")
		here.addPod(ctx, "deadline", restricted, tolerated("exec sleep 600"), func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) })
		here.expectPhase(ctx, corev1.PodFailed, "deadline")
		pod, err := here.pod(ctx, "deadline")
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Status.Reason).To(Equal("DeadlineExceeded"))

		By("sessions of their own, which end with the pod")
		here.addPod(ctx, "forker", restricted, tolerated("setsid sleep 98765 & sleep 98764 & exec sleep 600"))
		here.expectPhase(ctx, corev1.PodRunning, "forker")
		for _, name := range []string{"rights", "startup", "liveness", "readiness", "deadline", "forker"} {
			here.remove(ctx, name, 0)
		}
		Eventually(s.processes).Should(BeEmpty())
		Eventually(s.files).Should(BeEmpty())
	}, SpecTimeout(5*time.Minute))
})
