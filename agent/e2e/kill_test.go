// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/nodedriver"
	"github.com/dray-project/dray/internal/dev/controlplane"
)

const (
	// defaultRounds is how often the loop kills if ROUNDS does not say.
	defaultRounds = 6
	// roundPods are those of a round. They want each device more than once.
	roundPods, killDevices = 6, 4
	// latestKill is when the victim dies at the latest, after the pods of a round began to be
	// created.
	latestKill = 1200 * time.Millisecond
	// crowdPatience is for a round.
	crowdPatience = 5 * time.Minute
)

// hardware is what dray-agent simulates. SITE tells the processes of one site from others.
const hardware = `
groups:
- {driver: %s, name: gpu, count: %d, env: ["DEVICE={device}", "SITE=%s"]}
`

// site is a node on which dray-agent publishes devices, prepares claims and runs pods as
// processes. It is killed and started again.
type site struct {
	*arena
	folder string
	agent  *controlplane.Program
}

func newSite(ctx context.Context) *site {
	GinkgoHelper()
	here = newArena(ctx)
	folder := shortdir.New(GinkgoTB())
	s := &site{arena: here, folder: folder}
	Expect(os.WriteFile(s.path("hardware.yaml"), fmt.Appendf(nil, hardware, s.driver, killDevices, folder), 0o600)).To(Succeed())
	s.start()
	DeferCleanup(func(ctx SpecContext) {
		Expect(s.agent.Stop()).To(Succeed())
		Expect(client.CoreV1().Nodes().Delete(ctx, s.node, metav1.DeleteOptions{})).To(Succeed())
		Expect(client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + s.driver})).To(Succeed())
		Expect(client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})).To(Succeed())
	})
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

func (s *site) start() {
	GinkgoHelper()
	var err error
	s.agent, err = plane.Launch(s.node, filepath.Join(binaries, "dray-agent"), "run", "--simulate="+s.path("hardware.yaml"), "--node-name="+s.node,
		"--kubeconfig="+plane.Kubeconfig(), "--kubelet-dir="+s.folder, "--cdi-dir="+s.path("cdi"), "--run-pods", "--device-plugin=false", "--listen=",
		"--pods-listen=127.0.0.1:0", "--client-ca-file="+filepath.Join(plane.Folder(), "ca.crt"))
	Expect(err).NotTo(HaveOccurred())
}

// victims are what the loop kills, each with how it is started again.
func (s *site) victims() []struct {
	name  string
	kill  func() error
	start func(context.Context) error
} {
	return []struct {
		name  string
		kill  func() error
		start func(context.Context) error
	}{
		{"agent", func() error { return s.agent.Kill() }, func(context.Context) error { s.start(); return nil }},
		{"scheduler", plane.KillScheduler, plane.StartScheduler},
		{"API server", plane.KillAPIServer, plane.StartAPIServer},
	}
}

// persist repeats what fails because the API server is down. What was created nevertheless
// exists already, and what was deleted is gone.
func persist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// populate creates the pods of a round. Some end by themselves, one with an error; others are
// deleted, with grace and by force.
func (s *site) populate(ctx context.Context, round int) error {
	for i := range roundPods {
		name := fmt.Sprintf("round-%d-%d", round, i)
		script := `test -n "$DEVICE" && sleep 0.` + strconv.Itoa(1+i)
		if i == 1 {
			script += fmt.Sprintf(" && exit %d", failedByItself)
		}
		if i >= roundPods-2 {
			script = `test -n "$DEVICE" && exec sleep 600`
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{corev1.LabelHostname: s.node},
			Tolerations: []corev1.Toleration{{Key: "dray.dev/processes", Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "main", Image: "none", Command: []string{"/bin/sh", "-c", script}}},
		}}
		withTemplate(pod)
		err := persist(ctx, func() error {
			_, err := client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, grace := range []int64{30, 0} {
		name := fmt.Sprintf("round-%d-%d", round, roundPods-2+i)
		err := persist(ctx, func() error {
			// Whatever it does by then.
			return client.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(grace)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unfinished are the pods that have not ended.
func (s *site) unfinished(ctx context.Context) ([]string, error) {
	pods, err := client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			names = append(names, fmt.Sprintf("%s on %q is %s: %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Message))
		}
	}
	return names, nil
}

// left are claims that are prepared, by what the node, the driver and the CDI folder say, and
// processes that pods left.
func (s *site) left() ([]string, error) {
	var left []string
	known, err := checkpoint.Read[[]struct{ Namespace, Name string }](s.path("claims.json"))
	for _, claim := range known {
		left = append(left, "the node knows claim "+claim.Name)
	}
	ledger, more := inventory.OpenLedger(nodedriver.LedgerPath(s.folder, s.driver))
	if more == nil {
		for _, hold := range ledger.Holds() {
			left = append(left, "the driver knows "+hold.User)
		}
	}
	files, others := os.ReadDir(s.path("cdi"))
	for _, file := range files {
		left = append(left, "CDI file "+file.Name())
	}
	if errors.Is(others, fs.ErrNotExist) {
		others = nil
	}
	for _, pid := range s.processes() {
		left = append(left, fmt.Sprintf("process %d", pid))
	}
	return left, errors.Join(err, more, others)
}

// processes are those of pods: supervisors have the node's folder among their arguments, and what
// they started with a device has it in its environment.
func (s *site) processes() []int {
	GinkgoHelper()
	all, err := filepath.Glob("/proc/[0-9]*")
	Expect(err).NotTo(HaveOccurred())
	var found []int
	for _, path := range all {
		arguments, _ := os.ReadFile(filepath.Join(path, "cmdline")) // it may have ended
		environment, _ := os.ReadFile(filepath.Join(path, "environ"))
		if strings.HasPrefix(string(arguments), "dray-pod\x00"+s.folder) || strings.Contains(string(environment), "SITE="+s.folder+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(path))
			Expect(err).NotTo(HaveOccurred())
			found = append(found, pid)
		}
	}
	return found
}

// files are what is kept of pods on the node.
func (s *site) files() ([]string, error) {
	var found []string
	for _, folder := range []string{"pods", "pod-logs"} {
		entries, err := os.ReadDir(s.path(folder))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			found = append(found, filepath.Join(folder, entry.Name()))
		}
	}
	return found, nil
}

// Pods of a round that are not deleted: they succeed, but for the one that exits with
// failedByItself.
const (
	kept           = roundPods - 2
	failedByItself = 3
)

// outcome says how the pods of a round ended. A pod that had no device, or that nobody saw end, is
// a failure of the spec.
func (s *site) outcome(ctx context.Context) (succeeded, failed int) {
	GinkgoHelper()
	pods, err := client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods.Items {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded++
		default:
			failed++
			Expect(pod.Status.ContainerStatuses).To(HaveLen(1), "%s: %v", pod.Name, pod.Status)
			Expect(pod.Status.ContainerStatuses[0].State.Terminated).To(HaveField("ExitCode", BeEquivalentTo(failedByItself)), pod.Name)
		}
	}
	return succeeded, failed
}

func roundsWanted() int {
	GinkgoHelper()
	text := os.Getenv("ROUNDS")
	if text == "" {
		return defaultRounds
	}
	rounds, err := strconv.Atoi(text)
	Expect(err).NotTo(HaveOccurred(), "ROUNDS is a number")
	return rounds
}

var _ = Describe("SIGKILL", Serial, func() {
	It("of agent, scheduler and API server loses no device, no claim and no pod", func(ctx SpecContext) {
		rounds := roundsWanted()
		s := newSite(ctx)
		s.addTemplate(ctx)
		kills, ended := make(map[string]int), 0
		for round := range rounds {
			victim := s.victims()[rand.IntN(3)]
			at := rand.N(latestKill)
			By(fmt.Sprintf("round %d: %s dies after %v", round, victim.name, at))
			var populating sync.WaitGroup
			populating.Go(func() {
				defer GinkgoRecover()
				Expect(s.populate(ctx, round)).To(Succeed())
			})
			time.Sleep(at) // a random point, and no synchronisation
			Expect(victim.kill()).To(Succeed())
			Expect(victim.start(ctx)).To(Succeed())
			kills[victim.name]++
			populating.Wait()
			Eventually(ctx, s.unfinished).WithTimeout(crowdPatience).Should(BeEmpty(), "pods that can run, in round %d after the %s died", round, victim.name)
			Eventually(s.left).WithTimeout(crowdPatience).Should(BeEmpty(), "prepared claims without a pod, in round %d after the %s died", round, victim.name)
			succeeded, failed := s.outcome(ctx)
			Expect(succeeded+failed).To(Equal(kept), "round %d after the %s died", round, victim.name)
			Expect(failed).To(Equal(1), "round %d after the %s died", round, victim.name)
			ended += succeeded + failed
			Expect(persist(ctx, func() error {
				return client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
			})).To(Succeed())
			Eventually(ctx, s.holders).WithTimeout(crowdPatience).Should(BeEmpty(), "claims that hold devices, in round %d after the %s died", round, victim.name)
			Eventually(s.files).WithTimeout(crowdPatience).Should(BeEmpty(), "what is kept of pods that are gone")
			Eventually(watcher.Leaked).WithTimeout(crowdPatience).Should(BeEmpty())
			Expect(watcher.Violations()).To(BeEmpty(), "round %d after the %s died", round, victim.name)
		}
		AddReportEntry("kill loop", fmt.Sprintf("%d rounds; killed: %v; all %d pods that were not deleted ended by themselves", rounds, kills, ended))
		Expect(ended).To(BeNumerically(">", 0))
	}, SpecTimeout(2*time.Hour))
})
