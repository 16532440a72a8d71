// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/fakedriver"
)

// healthOfPod has the status of a pod's devices, by container and resource.
func healthOfPod(p *Preparer, pod *v1.Pod) string {
	var lines []string
	for container, resources := range p.ResourceStatus(pod) {
		for _, status := range resources {
			line := fmt.Sprint(container, " ", status.Name)
			for _, device := range status.Resources {
				line += fmt.Sprint(" ", device.ResourceID, "=", device.Health)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestHealth: the devices of a driver that reports health have it in the pod's status, as long as the driver is there. Of another
// driver's devices nothing is said.
func TestHealth(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus, nics}, "a"))
	gpu := n.driver(t, gpus, fakedriver.Speaking)
	n.driver(t, nics)
	a := pod("a", "one")
	if got := healthOfPod(n.preparer, a); got != "" {
		t.Errorf("before it is prepared: %s", got)
	}
	n.prepare(t, a)
	becomes := func(first, second string) {
		t.Helper()
		want := fmt.Sprintf("main claim:as-one gpu.example.com/claim=one-0=%s gpu.example.com/claim=one-1=%s", first, second)
		var got string
		for changed := n.preparer.HealthChanged(); ; changed = n.preparer.HealthChanged() {
			if got = healthOfPod(n.preparer, a); got == want {
				return
			}
			select {
			case <-changed: // it is told of each change
			case <-time.After(2 * time.Minute):
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	becomes("Unknown", "Unknown")
	gpu.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY)
	becomes("Healthy", "Unhealthy")
	gpu.Report(drahealth.HealthStatus_UNKNOWN, drahealth.HealthStatus_HEALTHY)
	becomes("Unknown", "Healthy")
	gpu.Stop()
	becomes("Unknown", "Unknown")
	n.driver(t, gpus)
	n.release(t, a)
	if got := healthOfPod(n.preparer, a); got != "" {
		t.Errorf("after it was released: %s", got)
	}
}

// TestHealthOfRequests: a container that uses one request of a claim has the health of the devices for that request.
func TestHealthOfRequests(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, fakedriver.Speaking)
	a := pod("a", "one")
	a.Spec.Containers[0].Resources.Claims[0].Request = "b"
	n.prepare(t, a)
	gpu.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY)
	fakecluster.Eventually(t, "the health of one device", func() bool {
		return healthOfPod(n.preparer, a) == "main claim:as-one/b gpu.example.com/claim=one-1=Unhealthy"
	})
}
