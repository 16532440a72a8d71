// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

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
				if device.Message != nil {
					line += " (" + *device.Message + ")"
				}
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestHealth: the devices of a driver that reports health have it in the pod's status, as long as the driver is there. That of
// another driver's devices is unknown.
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
		want := fmt.Sprintf("main claim:as-one gpu.example.com/claim=one-0=%s gpu.example.com/claim=one-1=%s"+
			" nic.example.com/claim=one-0=Unknown nic.example.com/claim=one-1=Unknown", first, second)
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

// TestHealthOfExtendedResource: the devices of an extended resource get to the container, but the pod's status says nothing of
// them.
func TestHealthOfExtendedResource(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"), claim("extended", []string{gpus}, "a"))
	n.driver(t, gpus)
	a := pod("a", "one")
	a.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "extended",
		RequestMappings:   []v1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "a"}},
	}
	n.prepare(t, a)
	devices, err := n.preparer.CDIDevices(a)
	if err != nil || !slices.Contains(devices["main"], "gpu.example.com/claim=extended-0") {
		t.Errorf("devices %v, %v", devices, err)
	}
	if got, want := healthOfPod(n.preparer, a), "main claim:as-one gpu.example.com/claim=one-0=Unknown gpu.example.com/claim=one-1=Unknown"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestHealthByCommonName: the API server refuses a status in which devices have the same name. They are one then, and as well as the
// one that is worst off.
func TestHealthByCommonName(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, fakedriver.Speaking, func(d *driver) { d.Common, d.Message = "gpu.example.com/gpu=common", "said" })
	a := pod("a", "one")
	n.prepare(t, a)
	for _, test := range []struct {
		first, second drahealth.HealthStatus
		want          string
	}{
		{drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_HEALTHY, "Healthy"},
		{drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY, "Unhealthy"},
		{drahealth.HealthStatus_UNHEALTHY, drahealth.HealthStatus_HEALTHY, "Unhealthy"},
		{drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNKNOWN, "Unknown"},
		{drahealth.HealthStatus_UNKNOWN, drahealth.HealthStatus_UNHEALTHY, "Unhealthy"},
	} {
		gpu.Report(test.first, test.second)
		want := "main claim:as-one gpu.example.com/gpu=common=" + test.want + " (said)"
		fakecluster.Eventually(t, want, func() bool { return healthOfPod(n.preparer, a) == want })
	}
}

// TestHealthOfOlderService: drivers with the libraries of Kubernetes 1.36 report by another service.
func TestHealthOfOlderService(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus, fakedriver.SpeakingOlder)
	a := pod("a", "one")
	n.prepare(t, a)
	gpu.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY)
	want := "main claim:as-one gpu.example.com/claim=one-0=Healthy gpu.example.com/claim=one-1=Unhealthy"
	fakecluster.Eventually(t, want, func() bool { return healthOfPod(n.preparer, a) == want })
}

// TestHealthServices: the latest service that a driver announces is used.
func TestHealthServices(t *testing.T) {
	const older, latest = "v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"
	for _, test := range []struct {
		announced []string
		want      string
	}{{nil, ""}, {[]string{older}, older}, {[]string{latest}, latest}, {[]string{older, latest}, latest}} {
		found, err := accept("socket", &registration.PluginInfo{Name: gpus, Endpoint: "/none", SupportedVersions: append([]string{"v1.DRAPlugin"}, test.announced...)})
		if err != nil {
			t.Fatal(err)
		}
		if found.health != test.want {
			t.Errorf("%q: %q, want %q", test.announced, found.health, test.want)
		}
		_ = found.conn.Close()
	}
}

// TestNoHealth: a driver that announces that it reports health, but has none, is not asked again. Those with the libraries of 1.37 do
// so by default.
func TestNoHealth(t *testing.T) {
	n := newNode(t)
	d := startDriver(t, n.registry(), gpus, func(d *driver) { d.NoHealth = true })
	conn, err := dial(d.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	newHealths().follow(t.Context(), 1, plugin{driver: gpus, conn: conn, health: drahealth.DRAResourceHealthService})
}

// reported is a report of devices of the pool p that are healthy.
func reported(timeout int64, names ...string) []*drahealth.DeviceHealth {
	var out []*drahealth.DeviceHealth
	for _, name := range names {
		out = append(out, &drahealth.DeviceHealth{
			Device: &drahealth.DeviceIdentifier{PoolName: "p", DeviceName: name}, Health: drahealth.HealthStatus_HEALTHY, HealthCheckTimeoutSeconds: timeout,
		})
	}
	return out
}

// TestHealthExpires: a report counts for as long as it says, or else for half a minute. Whoever waits for changes is told.
func TestHealthExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealths()
		expect := func(name string, want v1.ResourceHealthStatus) {
			t.Helper()
			if got := h.of(gpus, deviceName{"p", name}).status; got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		h.set(t.Context(), gpus, 1, slices.Concat(reported(0, "usual"), reported(-1, "negative"), reported(5, "brief"), reported(math.MaxInt64, "eternal")))
		changed := h.changed
		time.Sleep(4 * time.Second)
		for _, name := range []string{"usual", "negative", "brief", "eternal"} {
			expect(name, v1.ResourceHealthStatusHealthy)
		}
		expect("other", v1.ResourceHealthStatusUnknown)
		select {
		case <-changed:
			t.Error("told of a change before there was one")
		default:
		}
		<-changed
		expect("brief", v1.ResourceHealthStatusUnknown)
		expect("usual", v1.ResourceHealthStatusHealthy)
		time.Sleep(20 * time.Second)
		h.set(t.Context(), gpus, 1, reported(0, "usual"))
		time.Sleep(20 * time.Second)
		expect("usual", v1.ResourceHealthStatusHealthy)
		expect("negative", v1.ResourceHealthStatusUnknown)
		time.Sleep(11 * time.Second)
		expect("usual", v1.ResourceHealthStatusUnknown)
		time.Sleep(24 * time.Hour)
		expect("eternal", v1.ResourceHealthStatusHealthy)
		h.lose(gpus, 1)
	})
}

// TestHealthOfProcesses: of two processes of a driver, the one that registered last counts, as long as it reports.
func TestHealthOfProcesses(t *testing.T) {
	h := newHealths()
	expect := func(first, second v1.ResourceHealthStatus) {
		t.Helper()
		if a, b := h.of(gpus, deviceName{"p", "a"}).status, h.of(gpus, deviceName{"p", "b"}).status; a != first || b != second {
			t.Errorf("%s, %s, want %s, %s", a, b, first, second)
		}
	}
	const unknown, healthy = v1.ResourceHealthStatusUnknown, v1.ResourceHealthStatusHealthy
	h.set(t.Context(), gpus, 1, reported(0, "a"))
	expect(healthy, unknown)
	h.set(t.Context(), gpus, 2, reported(0, "b"))
	expect(unknown, healthy)
	h.set(t.Context(), gpus, 1, reported(0, "a"))
	h.lose(gpus, 1)
	expect(unknown, healthy)
	h.lose(gpus, 2)
	expect(unknown, unknown)
	h.set(t.Context(), gpus, 1, reported(0, "a"))
	expect(healthy, unknown)
	h.lose(gpus, 1)
}

// TestHealthChanged: who waits is told of what changes, and of nothing else.
func TestHealthChanged(t *testing.T) {
	h := newHealths()
	defer h.lose(gpus, 1)
	for _, test := range []struct {
		name   string
		change func(device *drahealth.DeviceHealth)
		want   bool
	}{
		{"nothing new", func(device *drahealth.DeviceHealth) { device.Health = drahealth.HealthStatus_UNKNOWN }, false},
		{"the first report", func(*drahealth.DeviceHealth) {}, true},
		{"the same again", func(*drahealth.DeviceHealth) {}, false},
		{"another timeout", func(device *drahealth.DeviceHealth) { device.HealthCheckTimeoutSeconds = 60 }, false},
		{"another message", func(device *drahealth.DeviceHealth) { device.Message = "hot" }, true},
		{"another health", func(device *drahealth.DeviceHealth) {
			device.Message, device.Health = "hot", drahealth.HealthStatus_UNHEALTHY
		}, true},
	} {
		changed, devices := h.changed, reported(0, "a")
		test.change(devices[0])
		h.set(t.Context(), gpus, 1, devices)
		select {
		case <-changed:
			if !test.want {
				t.Errorf("%s: told of a change", test.name)
			}
		default:
			if test.want {
				t.Errorf("%s: not told of a change", test.name)
			}
		}
	}
}

// TestHealthLimits: a driver cannot fill the memory, nor send a message that the API server refuses.
func TestHealthLimits(t *testing.T) {
	h := newHealths()
	defer h.lose(gpus, 1)
	var names []string
	for i := range maxHealthDevices + 1 {
		names = append(names, strconv.Itoa(i))
	}
	h.set(t.Context(), gpus, 1, reported(0, names...))
	first, last := deviceName{"p", "0"}, deviceName{"p", names[maxHealthDevices]}
	if got := h.of(gpus, last).status; got != v1.ResourceHealthStatusUnknown {
		t.Errorf("device %d is %s", maxHealthDevices+1, got)
	}
	for _, test := range []struct{ message, want string }{
		{strings.Repeat("a", 1024), strings.Repeat("a", 1024)},
		{strings.Repeat("a", 1025), strings.Repeat("a", 1021) + "..."},
		{strings.Repeat("é", 600), strings.Repeat("é", 510) + "..."}, // of two bytes each
	} {
		again := reported(0, "0")
		again[0].Message = test.message
		h.set(t.Context(), gpus, 1, again)
		if got := h.of(gpus, first).message; got != test.want {
			t.Errorf("message %q, want %q", got, test.want)
		}
	}
}
