// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:revive // how expectations are written
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/install"
	"github.com/dray-project/dray/schedplugin/internal/dev/admission"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
	"github.com/dray-project/dray/schedplugin/internal/dev/nodesim"
)

const patience = 3 * time.Minute

// startPlane starts a control plane, without a scheduler.
func startPlane(t *testing.T) (*controlplane.ControlPlane, kubernetes.Interface) {
	t.Helper()
	programs, err := controlplane.BinariesIn(binaries)
	if err != nil {
		t.Fatalf("%v; run make controlplane first", err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Binaries: programs, Scheduler: controlplane.InTree})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := plane.StopScheduler(); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	return plane, client
}

// TestInstallation goes with the scheduler through all that needs a permission, and
// compares what it asked of the API server with what it is allowed.
func TestInstallation(t *testing.T) {
	plane, client := startPlane(t)
	t.Run("every variant is valid", func(t *testing.T) {
		a, err := install.NewApplier(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		for variant := range variants {
			for _, object := range rendered(t, variant) {
				if kind := object.GetKind(); kind == "PrometheusRule" || kind == "ServiceMonitor" {
					continue // the tests of render decode them into their types, strictly
				}
				if err := a.Apply(t.Context(), object, metav1.DryRunAll); err != nil {
					t.Errorf("%s: %v", variant, err)
				}
			}
		}
	})
	i := newInstallation(t, plane, client, "kustomize default")
	i.start()
	s := newStage(t, client, i)
	t.Cleanup(func() { s.describe(t) })
	s.playNodes(t)
	for _, act := range []struct {
		name string
		play func(*stage, *testing.T)
	}{
		{"claims from templates", (*stage).scheduleTemplates},
		{"disturbances", (*stage).disturb},
		{"preemption", (*stage).preempt},
		{"repeated failures", (*stage).repeatFailure},
		{"extended resources", (*stage).scheduleExtended},
		{"volumes", (*stage).bindVolumes},
		{"pod groups", (*stage).scheduleGroup},
		{"metrics", (*stage).readMetrics},
		{"succession", (*stage).succeed},
	} {
		if !t.Run(act.name, func(t *testing.T) { act.play(s, t) }) {
			return
		}
	}
	t.Run("exactly these permissions", s.comparePermissions)
	t.Run("binding needs its permission", s.withholdBinding)
}

// comparePermissions finds what is missing and what is too much.
func (s *stage) comparePermissions(t *testing.T) {
	own, foreign := s.installed.allowed(t)
	needed := s.installed.recorder.Needed()
	if lacking, _ := install.Compare(slices.Concat(own, foreign), needed); len(lacking) > 0 {
		t.Errorf("needed, and not allowed: %v", lacking)
	}
	if _, idle := install.Compare(own, needed); len(idle) > 0 {
		t.Errorf("allowed, and never needed: %v", idle)
	}
	if refusals := s.installed.recorder.Refused(); len(refusals) > 0 {
		t.Errorf("refused by the API server: %v", refusals)
	}
}

// withholdBinding shows that the one permission which no request names is needed, for both
// of its verbs.
func (s *stage) withholdBinding(t *testing.T) {
	g := NewWithT(t)
	roles := s.client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "dray-scheduler", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	rules := role.Rules
	role.Rules = slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "resourceclaims/binding")
	})
	g.Expect(role.Rules).To(HaveLen(len(rules) - 1))
	role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	s.deletePods(t)
	s.addPod(t, "unbound", withTemplate("one"))
	g.Eventually(s.notes).WithContext(t.Context()).WithArguments("unbound").WithTimeout(patience).
		Should(ContainElement(And(ContainSubstring("resourceclaims/binding"), ContainSubstring(`verb="update"`))))

	role.Rules = rules
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	s.expectRunning(t, "unbound")
}

// notes are what Events say about a pod.
func (s *stage) notes(ctx context.Context, pod string) ([]string, error) {
	events, err := s.client.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, event := range events.Items {
		if event.Regarding.Name == pod {
			notes = append(notes, event.Note)
		}
	}
	return notes, nil
}

// readMetrics reads metrics as docs/operations.md tells, and as somebody without the
// permission to.
func (s *stage) readMetrics(t *testing.T) {
	g := NewWithT(t)
	_, err := s.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "monitoring"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.installed.get).WithArguments("https", "/metrics", s.installed.token(t, s.namespace, "default")).WithTimeout(patience).
		Should(And(HavePrefix("200"), ContainSubstring("dray_node_answers_total")))
	g.Expect(s.installed.get("https", "/metrics", s.installed.token(t, "kube-system", "default"))).To(HavePrefix("403"))
	s.compareMetrics(t)
}

// succeed has another replica get ready while the first one has the lease, and go on when
// that ends. Its informers list before they watch, as they do when an API server cannot do
// both in one.
func (s *stage) succeed(t *testing.T) {
	g := NewWithT(t)
	first := s.installed.running
	g.Expect(s.installed.healthy()).To(Succeed())
	s.installed.start("WatchListClient=false")
	g.Eventually(s.installed.healthy).WithTimeout(patience).Should(Succeed())
	g.Expect(first.Process.Signal(syscall.Signal(0))).To(Succeed(), "the first replica runs")
	end(t, first)
	s.deletePods(t)
	s.addPod(t, "afterwards", withTemplate("one"))
	s.expectRunning(t, "afterwards")
}

// stage is where the scheduler acts: a namespace, nodes and a class of devices.
type stage struct {
	client    kubernetes.Interface
	installed *installation
	namespace string
}

const driver = "gpu.example.com"

func newStage(t *testing.T, client kubernetes.Interface, installed *installation) *stage {
	t.Helper()
	g := NewWithT(t)
	s := &stage{client: client, installed: installed, namespace: "stage"}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	s.addNode(t, "a")
	_, err = client.ResourceV1().ResourceSlices().Create(t.Context(), inventory.Slice(driver, "a", inventory.GPUs(2, "a100", "80Gi")...), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	extended := "example.com/gpu"
	_, err = client.ResourceV1().DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{
			Selectors:            []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}},
			ExtendedResourceName: &extended,
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	s.addTemplate(t, "one", 1)
	s.addTemplate(t, "two", 2)
	s.awaitAdmission(t, "")
	return s
}

// awaitAdmission waits until pods of a PriorityClass can be created.
func (s *stage) awaitAdmission(t *testing.T, class string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	NewWithT(t).Expect(admission.Await(ctx, s.client, s.namespace, class)).To(Succeed())
}

// describe adds to the output of a test that has failed what became of pods and claims.
func (s *stage) describe(t *testing.T) {
	if !t.Failed() {
		return
	}
	pods, err := s.client.CoreV1().Pods(s.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
	}
	for _, pod := range pods.Items {
		t.Logf("pod %s: node %q, deletion %v, status %s", pod.Name, pod.Spec.NodeName, pod.DeletionTimestamp, pod.Status.String())
	}
	claims, err := s.client.ResourceV1().ResourceClaims(s.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
	}
	for _, claim := range claims.Items {
		t.Logf("claim %s: deletion %v, status %s", claim.Name, claim.DeletionTimestamp, claim.Status.String())
	}
}

func (s *stage) playNodes(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- nodesim.Run(ctx, s.client) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "context canceled") {
			t.Error(err)
		}
	})
}
