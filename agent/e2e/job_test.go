// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// jobPods run at a time. They want each device more than once.
	jobPods = killDevices + 2
	// podsPerKill are how many pods of the Job there are for each SIGKILL.
	podsPerKill = 3
	jobName     = "job"
)

// exclusive takes the device of its pod, and fails if another pod has it.
const exclusive = `test -n "$DEVICE" || exit 8
mkdir "%[1]s/$DEVICE" || exit 9
setsid sleep 600 &
sleep 0.%[2]d
rmdir "%[1]s/$DEVICE"`

// addJob adds a Job of pods that each have a device for themselves. A pod that fails fails it.
func (s *site) addJob(ctx context.Context, devices string, completions int32) {
	GinkgoHelper()
	pod := corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{corev1.LabelHostname: s.node},
		Tolerations: []corev1.Toleration{{Key: "dray.dev/processes", Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "main", Image: "none", Command: []string{"/bin/sh", "-c", fmt.Sprintf(exclusive, devices, 2)}}},
	}}
	withTemplate(&pod)
	_, err := client.BatchV1().Jobs(s.namespace).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName}, Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](jobPods), Completions: &completions, BackoffLimit: ptr.To[int32](0),
		Template: corev1.PodTemplateSpec{Spec: pod.Spec},
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// addIndexed adds a Job whose pods print their index, which they know by a field of their pod.
func (s *site) addIndexed(ctx context.Context, completions int32) {
	GinkgoHelper()
	_, err := client.BatchV1().Jobs(s.namespace).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName}, Spec: batchv1.JobSpec{
		CompletionMode: ptr.To(batchv1.IndexedCompletion), Parallelism: &completions, Completions: &completions, BackoffLimit: ptr.To[int32](0),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{corev1.LabelHostname: s.node},
			Tolerations: []corev1.Toleration{{Key: "dray.dev/processes", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: "none", Command: []string{"/bin/sh", "-c", `echo "I am $JOB_COMPLETION_INDEX"`},
			}},
		}},
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// failures say how pods failed.
func (s *site) failures(ctx context.Context) string {
	pods, err := client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Failed"})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, pod := range pods.Items {
		fmt.Fprintf(&text, "%s: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
		for _, container := range pod.Status.ContainerStatuses {
			fmt.Fprintf(&text, " %v", container.State.Terminated)
		}
		text.WriteByte('\n')
	}
	return text.String()
}

var _ = Describe("A Job", Serial, func() {
	It("that is indexed tells each of its pods which one it is", func(ctx SpecContext) {
		s := newSite(ctx)
		const completions = 3
		s.addIndexed(ctx, completions)
		Eventually(ctx, func(ctx context.Context) (batchv1.JobStatus, error) {
			found, err := client.BatchV1().Jobs(s.namespace).Get(ctx, jobName, metav1.GetOptions{})
			if err != nil {
				return batchv1.JobStatus{}, err
			}
			Expect(found.Status.Failed).To(BeZero(), func() string { return s.failures(ctx) })
			return found.Status, nil
		}).WithTimeout(crowdPatience).Should(HaveField("Succeeded", int32(completions)))
		pods, err := client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(completions))
		for _, pod := range pods.Items {
			log, err := client.CoreV1().Pods(s.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(log)).To(Equal(fmt.Sprintf("I am %s\n", pod.Labels[batchv1.JobCompletionIndexAnnotation])))
		}
	}, SpecTimeout(5*time.Minute))

	It("of pods with devices completes, however often the agent is killed", func(ctx SpecContext) {
		s := newSite(ctx)
		s.addTemplate(ctx)
		devices, err := os.MkdirTemp("", "devices")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, devices)
		Expect(os.Chmod(devices, 0o777)).To(Succeed()) //nolint:gosec // pods are nobody
		kills := roundsWanted()
		completions := int32(podsPerKill * kills)
		s.addJob(ctx, devices, completions)
		job := func(ctx context.Context) (batchv1.JobStatus, error) {
			found, err := client.BatchV1().Jobs(s.namespace).Get(ctx, jobName, metav1.GetOptions{})
			if err != nil {
				return batchv1.JobStatus{}, err
			}
			return found.Status, nil
		}
		under := 0 // kills while pods of the Job were to run
		for range kills {
			time.Sleep(rand.N(latestKill)) // a random point, and no synchronisation
			status, err := job(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status.Failed).To(BeZero(), func() string { return s.failures(ctx) })
			if status.Succeeded < completions {
				under++
			}
			Expect(s.agent.Kill()).To(Succeed())
			s.start()
		}
		Eventually(ctx, job).WithTimeout(crowdPatience).Should(HaveField("Succeeded", completions))
		status, err := job(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Failed).To(BeZero(), func() string { return s.failures(ctx) })
		Eventually(s.left).WithTimeout(crowdPatience).Should(BeEmpty(), "prepared claims and processes of pods that have ended")
		Expect(client.BatchV1().Jobs(s.namespace).Delete(ctx, jobName, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})).To(Succeed())
		Eventually(s.files).WithTimeout(crowdPatience).Should(BeEmpty(), "what is kept of pods that are gone")
		Eventually(ctx, s.holders).WithTimeout(crowdPatience).Should(BeEmpty(), "claims that hold devices")
		Eventually(watcher.Leaked).WithTimeout(crowdPatience).Should(BeEmpty())
		Expect(watcher.Violations()).To(BeEmpty())
		AddReportEntry("kill loop", fmt.Sprintf("the agent was killed %d times, %d of them while the Job was not complete; %d pods succeeded, and none failed", kills, under, completions))
		Expect(under).To(BeNumerically(">", 0))
	}, SpecTimeout(2*time.Hour))
})
