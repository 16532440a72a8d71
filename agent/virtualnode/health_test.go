// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// TestHealth follows the health of a pod's devices in its status, until the driver is gone.
func TestHealth(t *testing.T) {
	m := newMachine(t, claim("one", "a"), pod("a", "one"), pod("b"))
	m.driver.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_HEALTHY)
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "a", corev1.PodRunning)
	m.awaitPhase(t, "b", corev1.PodRunning)
	health := func(name string) string {
		found, err := m.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, status := range found.Status.ContainerStatuses {
			for _, resource := range status.AllocatedResourcesStatus {
				text += string(resource.Name)
				for _, device := range resource.Resources {
					text += fmt.Sprint(" ", device.ResourceID, " ", device.Health)
				}
			}
		}
		return text
	}
	expect := func(first, second string) {
		t.Helper()
		want := fmt.Sprintf("claim:one gpu.example.com/claim=one-0 %s gpu.example.com/claim=one-1 %s", first, second)
		fakecluster.Eventually(t, want, func() bool { return health("a") == want })
	}
	expect("Healthy", "Healthy")
	m.driver.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY)
	expect("Healthy", "Unhealthy")
	m.driver.Stop()
	expect("Unknown", "Unknown")
	if err := m.driver.Listen(); err != nil {
		t.Fatal(err)
	}
	expect("Healthy", "Unhealthy")
	if got := health("b"); got != "" {
		t.Errorf("a pod without devices has %q", got)
	}
	known, _ := p.get("a")
	p.report(known, corev1.PodSucceeded)
	m.awaitPhase(t, "a", corev1.PodSucceeded)
	m.driver.Report(drahealth.HealthStatus_UNHEALTHY, drahealth.HealthStatus_UNHEALTHY)
	m.prepared(t)
}
