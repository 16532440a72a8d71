// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// kindsOfNodes has NAME and DRIVER in the place of the arena's. What happens leaves time for pods to begin, and stays long enough
// to be seen on a busy machine.
const kindsOfNodes = `
nodes:
- name: NAME-gpu-{index}
  count: 2
  zones: [a, b]
  taints: [{key: NAME, effect: NoSchedule}]
  capacity: {cpu: 2}
  groups:
  - driver: DRIVER
    name: gpu
    count: 2
    counters: {memory: 80Gi}
    partitions: [{name: half, count: 2, counters: {memory: 40Gi}}]
    data: {port: "port of {device}"}
  script:
  - {at: 20s, node: NAME-gpu-0, device: gpu-0, fail: {reason: Broken, message: by a script, evict: true}}
  - {at: 20s, node: NAME-gpu-0, device: gpu-1, fail: {reason: "ECC error: 2 bits"}}
  - {at: 20s, node: NAME-gpu-1, notReady: {reason: Unplugged}}
  - {at: 40s, node: NAME-gpu-0, device: gpu-1, recover: true}
  - {at: 40s, node: NAME-gpu-1, ready: true}
- name: NAME-cpu
`

// agent runs dray-agent to its end, and returns what it printed.
func agent(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(binaries, "dray-agent"), arguments...).CombinedOutput()
	return string(out), err
}

// deviceReports describes status.devices of a claim: "gpu-0 Ready=True Healthy=False".
func (a *arena) deviceReports(ctx context.Context, claim string) (string, error) {
	found, err := client.ResourceV1().ResourceClaims(a.namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var out []string
	for _, device := range found.Status.Devices {
		text := device.Device
		for _, condition := range device.Conditions {
			text += fmt.Sprintf(" %s=%s", condition.Type, condition.Status)
		}
		if device.Data != nil {
			text += " " + string(device.Data.Raw)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; "), nil
}

// taintsOf are the taints of a device of a node, as its ResourceSlices have them.
func (a *arena) taintsOf(ctx context.Context, node, name string) (string, error) {
	list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + node})
	if err != nil {
		return "", err
	}
	for _, slice := range list.Items {
		for _, device := range slice.Spec.Devices {
			if device.Name == name {
				var out []string
				for _, taint := range device.Taints {
					out = append(out, fmt.Sprintf("%s=%s:%s", strings.TrimPrefix(taint.Key, a.driver), taint.Value, taint.Effect))
				}
				return strings.Join(out, " "), nil
			}
		}
	}
	return "", fmt.Errorf("device %s/%s: not published", node, name)
}

func readiness(ctx context.Context, name string) (string, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return string(condition.Status) + " " + condition.Reason, nil
		}
	}
	return "", errors.New("there is no condition Ready")
}

var _ = Describe("A fleet that a file describes", func() {
	BeforeEach(func(ctx SpecContext) {
		here = newArena(ctx)
		here.addTemplate(ctx)
		DeferCleanup(func(ctx SpecContext) {
			_, err := fleet.Delete(ctx, client, here.namespace)
			Expect(err).NotTo(HaveOccurred())
			Expect(client.CoreV1().Namespaces().Delete(ctx, here.namespace, metav1.DeleteOptions{})).To(Succeed())
		})
	})

	It("has claims prepared, devices and nodes that fail by its script, and is deleted as a whole", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "hardware.yaml")
		text := strings.NewReplacer("NAME", here.namespace, "DRIVER", here.driver).Replace(kindsOfNodes)
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		arguments := []string{"simulate", "--kubeconfig=" + plane.Kubeconfig(), "--fleet=" + here.namespace}
		first, second := here.namespace+"-gpu-0", here.namespace+"-gpu-1"
		on := func(node string) with {
			return func(pod *corev1.Pod) {
				pod.Spec.NodeSelector[corev1.LabelHostname] = node
				pod.Spec.Tolerations = []corev1.Toleration{{Key: here.namespace}}
			}
		}
		// The script runs from the start of the fleet on. So the controller that makes claims is busy with this one first: after a test
		// that killed the API server, it may take half a minute to come back.
		here.addPod(ctx, "evicted", withTemplate, on(first))
		Eventually(ctx, here.pod).WithArguments("evicted").Should(HaveField("Status.ResourceClaimStatuses", HaveLen(1)))
		program, err := plane.Launch(here.namespace, filepath.Join(binaries, "dray-agent"), append(arguments, "--hardware="+path)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(program.Stop)

		// Two GPUs, whole: a half would leave no counters for the other pod's.
		here.expectPhase(ctx, corev1.PodRunning, "evicted")
		here.addPod(ctx, "stays", withTemplate, on(first))
		here.expectPhase(ctx, corev1.PodRunning, "stays")
		here.addPod(ctx, "waits", withTemplate, on(first))
		reports := func(pod string) func(context.Context) (string, error) {
			claim := here.claimOf(ctx, pod).Name
			return func(ctx context.Context) (string, error) { return here.deviceReports(ctx, claim) }
		}
		Eventually(ctx, reports("evicted")).Should(Equal(`gpu-0 Ready=True Healthy=True {"port":"port of gpu-0"}`))
		Eventually(ctx, reports("stays")).Should(Equal(`gpu-1 Ready=True Healthy=True {"port":"port of gpu-1"}`))
		phase, err := here.phase(ctx, "waits")
		Expect(err).NotTo(HaveOccurred())
		Expect(phase).To(Equal(corev1.PodPending))

		Eventually(ctx, here.taintsOf).WithArguments(first, "gpu-0").Should(Equal("/unhealthy=Broken:NoExecute"))
		Eventually(ctx, readiness).WithArguments(second).Should(Equal("False Unplugged"))
		Eventually(ctx, reports("stays")).Should(ContainSubstring("Healthy=False"))
		here.expectGone(ctx, "evicted")
		Eventually(ctx, reports("stays")).Should(ContainSubstring("Healthy=True"))
		Eventually(ctx, readiness).WithArguments(second).Should(Equal("True Simulated"))
		Expect(here.taintsOf(ctx, first, "gpu-1")).To(BeEmpty())
		here.expectPhase(ctx, corev1.PodPending, "waits") // the device that is free is broken
		Expect(watcher.Violations()).To(BeEmpty())

		out, err := agent(ctx, append(arguments, "--delete")...)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("the fleet runs: stop it first"))
		Expect(program.Stop()).To(Succeed())
		out, err = agent(ctx, append(arguments, "--delete")...)
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(Equal("deleted: nodes 3, leases 3, ResourceSlices 4, pods 1\n"))
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelFleet + "=" + here.namespace})
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.Items).To(BeEmpty())
		slices, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + here.driver})
		Expect(err).NotTo(HaveOccurred())
		Expect(slices.Items).To(BeEmpty())
		here.expectGone(ctx, "stays")
		here.remove(ctx, "waits", 0)
		Eventually(ctx, here.holders).Should(BeEmpty())
	})

	It("that the API server refuses says why, and creates nothing", func(ctx SpecContext) {
		kind := fleet.GPUs(here.namespace+"-", 2, here.driver, 1)
		kind.Taints = []corev1.Taint{{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule}, {Key: "a", Value: "2", Effect: corev1.TaintEffectNoSchedule}}
		f, err := fleet.New(fleet.Options{Client: client, Name: here.namespace, Kinds: []inventory.SimulatedNodes{kind}})
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Run(ctx)).To(MatchError(ContainSubstring("fleet: nodes " + kind.Name + ": the API server refuses what they are made of: ")))
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelFleet + "=" + here.namespace})
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.Items).To(BeEmpty())
	})

	It("leaves a node alone that took the place of one of its own", func(ctx SpecContext) {
		kind := fleet.GPUs(here.namespace+"-", 1, here.driver, 0)
		kind.Script = []inventory.SimulatedEvent{{At: metav1.Duration{Duration: 3 * time.Second}, NotReady: &inventory.SimulatedNodeFailure{Reason: "Script"}}}
		f, err := fleet.New(fleet.Options{Client: client, Name: here.namespace, Kinds: []inventory.SimulatedNodes{kind}})
		Expect(err).NotTo(HaveOccurred())
		running, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() {
			defer GinkgoRecover()
			Expect(f.Run(running)).To(Succeed())
		})
		DeferCleanup(func() { cancel(); group.Wait() })
		Eventually(ctx, f.Ready()).Should(BeClosed())
		name := kind.NodeName(0)
		Expect(client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		})
		Consistently(ctx, func(ctx context.Context) (string, error) {
			node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady {
					return condition.Reason, nil
				}
			}
			return "", nil
		}).WithTimeout(6 * time.Second).ShouldNot(Equal("Script"))
	})
})
