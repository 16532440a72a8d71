// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// runFleet runs simulated nodes with two devices each, until the function that it returns is
// called.
func runFleet(ctx context.Context, nodes int) (stop func()) {
	GinkgoHelper()
	f, err := fleet.New(fleet.Options{Client: client, Name: here.namespace, Kinds: []inventory.SimulatedNodes{fleet.GPUs(here.namespace+"-", nodes, here.driver, 2)}})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		defer GinkgoRecover()
		Expect(f.Run(running)).To(Succeed())
	})
	stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	DeferCleanup(stop)
	Eventually(ctx, f.Ready()).Should(BeClosed())
	Expect(f.Registered()).To(Equal(nodes))
	return stop
}

var _ = Describe("A fleet", func() {
	const nodes = 10

	BeforeEach(func(ctx SpecContext) {
		here = newArena(ctx)
		DeferCleanup(func(ctx SpecContext) {
			for i := range nodes {
				name := fmt.Sprintf("%s-%d", here.namespace, i)
				Expect(client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			}
			Expect(client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + here.driver})).To(Succeed())
			Expect(client.CoreV1().Namespaces().Delete(ctx, here.namespace, metav1.DeleteOptions{})).To(Succeed())
		})
		here.addTemplate(ctx)
	})

	anywhere := func(pod *corev1.Pod) { pod.Spec.NodeSelector = nil }

	It("runs pods on all its devices, and they are free again when the pods are gone", func(ctx SpecContext) {
		runFleet(ctx, nodes)
		for round := range 2 {
			var names []string
			for i := range 2 * nodes {
				name := fmt.Sprintf("pod-%d-%d", round, i)
				names = append(names, name)
				here.addPod(ctx, name, withTemplate, anywhere)
			}
			here.expectPhase(ctx, corev1.PodRunning, names...)
			Expect(here.holders(ctx)).To(HaveLen(2 * nodes))
			for _, name := range names {
				here.remove(ctx, name, 30)
			}
			here.expectGone(ctx, names...)
		}
		Eventually(ctx, here.holders).Should(BeEmpty())
		Expect(watcher.Violations()).To(BeEmpty())
	})

	It("that is started again takes over its nodes and pods", func(ctx SpecContext) {
		stop := runFleet(ctx, nodes)
		here.addPod(ctx, "stays", withTemplate, anywhere)
		here.addPod(ctx, "goes", withTemplate, anywhere)
		here.expectPhase(ctx, corev1.PodRunning, "stays", "goes")
		first, err := here.pod(ctx, "stays")
		Expect(err).NotTo(HaveOccurred())
		stop()
		here.remove(ctx, "goes", 30)
		runFleet(ctx, nodes)
		here.expectGone(ctx, "goes")
		here.expectPhase(ctx, corev1.PodRunning, "stays")
		again, err := here.pod(ctx, "stays")
		Expect(err).NotTo(HaveOccurred())
		Expect(again.UID).To(Equal(first.UID))
		here.remove(ctx, "stays", 30)
		here.expectGone(ctx, "stays")
	})

	It("of the command dray-agent tells what it costs, and runs pods by a script", func(ctx SpecContext) {
		folder := GinkgoT().TempDir()
		script := filepath.Join(folder, "script.yaml")
		Expect(os.WriteFile(script, []byte("rules: [{runFor: 100ms, exitCode: 4}]"), 0o600)).To(Succeed())
		program, err := plane.Launch(here.namespace, filepath.Join(binaries, "dray-agent"), "simulate", "--kubeconfig="+plane.Kubeconfig(),
			fmt.Sprintf("--nodes=%d", nodes), "--prefix="+here.namespace+"-", "--driver="+here.driver, "--gpus=1", "--report=100ms", "--script="+script)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(program.Stop)
		printed := func() (string, error) {
			text, err := os.ReadFile(filepath.Join(plane.Folder(), here.namespace+".log"))
			return string(text), errors.Join(err, program.Err())
		}
		Eventually(printed).Should(MatchRegexp(`(?m)^%d of %d nodes registered in [0-9.]+ s: [0-9.]+ nodes/s, [0-9.]+ requests/node$`, nodes, nodes))
		Eventually(printed).Should(MatchRegexp(`(?m)^[1-9][0-9.]+ MiB of memory, [1-9][0-9.]+ KiB/node, [0-9.]+ requests/node/minute$`))
		here.addPod(ctx, "pod", withTemplate, anywhere, withoutRestart)
		here.expectPhase(ctx, corev1.PodFailed, "pod")
		ended, err := here.pod(ctx, "pod")
		Expect(err).NotTo(HaveOccurred())
		Expect(ended.Status.ContainerStatuses[0].State.Terminated.ExitCode).To(BeEquivalentTo(4))
		Expect(program.Stop()).To(Succeed())
		Expect(program.Err()).To(MatchError(ContainSubstring("exit status 0")))
		here.remove(ctx, "pod", 0)
	})
})
