// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/dray-project/dray/agent/claims"
	"github.com/dray-project/dray/internal/dev/kubelet"
)

// scriptedDriver prepares and reports what a test says. Kubernetes' own helper serves it.
type scriptedDriver struct {
	devices []kubeletplugin.Device
	health  []kubeletplugin.DeviceHealth // nil: it reports none
}

func (d *scriptedDriver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := make(map[types.UID]kubeletplugin.PrepareResult)
	for _, claim := range claims {
		out[claim.UID] = kubeletplugin.PrepareResult{Devices: d.devices}
	}
	return out, nil
}

func (d *scriptedDriver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := make(map[types.UID]error)
	for _, claim := range claims {
		out[claim.UID] = nil
	}
	return out, nil
}

func (d *scriptedDriver) HandleError(context.Context, error, string) {}

func (d *scriptedDriver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	if d.health == nil {
		return kubeletplugin.ErrHealthNotSupported
	}
	select {
	case reports <- kubeletplugin.DeviceHealthReport{Devices: d.health}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// device is one that a driver prepares.
func device(name string, request string, cdi ...string) kubeletplugin.Device {
	out := kubeletplugin.Device{PoolName: "p", DeviceName: name}
	if request != "" {
		out.Requests = []string{request}
	}
	for _, id := range cdi {
		out.CDIDeviceIDs = append(out.CDIDeviceIDs, driver+"/gpu="+id)
	}
	return out
}

func healthy(name, message string, timeout time.Duration) kubeletplugin.DeviceHealth {
	return kubeletplugin.DeviceHealth{PoolName: "p", DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, Message: message, HealthCheckTimeout: timeout}
}

func unhealthy(name, message string) kubeletplugin.DeviceHealth {
	return kubeletplugin.DeviceHealth{PoolName: "p", DeviceName: name, Health: kubeletplugin.HealthStatusUnhealthy, Message: message}
}

// describe says what a container's status says of its devices.
func describe(statuses []corev1.ResourceStatus) string {
	var lines []string
	for _, status := range statuses {
		for _, device := range status.Resources {
			line := fmt.Sprintf("%s %s %s", status.Name, strings.TrimPrefix(string(device.ResourceID), driver+"/"), device.Health)
			if device.Message != nil {
				line += " " + *device.Message
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// likeKubelet is what a driver does, what a container asks for, and what its status then says.
type likeKubelet struct {
	devices []kubeletplugin.Device
	health  []kubeletplugin.DeviceHealth
	options []kubeletplugin.Option
	below   string // folder of the registration socket, below that of all
	change  func(*corev1.Pod)
	want    string
}

var two = []kubeletplugin.Device{device("0", "gpu", "zero"), device("1", "gpu", "one")}

var casesLikeKubelet = map[string]likeKubelet{
	"health": {
		devices: two, health: []kubeletplugin.DeviceHealth{healthy("0", "", 0), unhealthy("1", "hot")},
		want: "claim:devices gpu=one Unhealthy hot\nclaim:devices gpu=zero Healthy",
	},
	"a report of one device": {
		devices: two, health: []kubeletplugin.DeviceHealth{unhealthy("1", "")},
		want: "claim:devices gpu=one Unhealthy\nclaim:devices gpu=zero Unknown",
	},
	"no health": {devices: two, want: "claim:devices gpu=one Unknown\nclaim:devices gpu=zero Unknown"},
	"no health service": {
		devices: two, options: []kubeletplugin.Option{kubeletplugin.HealthService(false)},
		want: "claim:devices gpu=one Unknown\nclaim:devices gpu=zero Unknown",
	},
	"the older health service": {
		devices: two, health: []kubeletplugin.DeviceHealth{healthy("0", "well", 0)}, options: []kubeletplugin.Option{kubeletplugin.HealthV1(false)},
		want: "claim:devices gpu=one Unknown\nclaim:devices gpu=zero Healthy well",
	},
	"the older API": {
		devices: two, health: []kubeletplugin.DeviceHealth{healthy("0", "", 0)}, options: []kubeletplugin.Option{kubeletplugin.NodeV1(false)},
		want: "claim:devices gpu=one Unknown\nclaim:devices gpu=zero Healthy",
	},
	"a report that is too old": {
		devices: two, health: []kubeletplugin.DeviceHealth{healthy("0", "", time.Second), healthy("1", "", time.Hour)},
		want: "claim:devices gpu=one Healthy\nclaim:devices gpu=zero Unknown",
	},
	"a long message": {
		devices: two[:1], health: []kubeletplugin.DeviceHealth{unhealthy("0", strings.Repeat("hot ", 300))},
		want: "claim:devices gpu=zero Unhealthy " + strings.Repeat("hot ", 255) + "h...",
	},
	"a CDI device in common": {
		devices: []kubeletplugin.Device{device("0", "gpu", "common", "zero"), device("1", "gpu", "common", "one")},
		health:  []kubeletplugin.DeviceHealth{unhealthy("0", "hot"), unhealthy("1", "hot")},
		want:    "claim:devices gpu=common Unhealthy hot",
	},
	"no CDI device": {
		devices: []kubeletplugin.Device{device("0", "gpu")}, health: []kubeletplugin.DeviceHealth{healthy("0", "", 0)},
		want: "claim:devices p/0 Healthy",
	},
	"a request": {
		devices: []kubeletplugin.Device{device("0", "gpu", "zero"), device("1", "other", "one"), device("2", "", "two")}, health: []kubeletplugin.DeviceHealth{healthy("0", "", 0)},
		change: func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Claims[0].Request = "gpu" },
		want:   "claim:devices/gpu gpu=two Unknown\nclaim:devices/gpu gpu=zero Healthy",
	},
	"a subrequest": {
		devices: []kubeletplugin.Device{device("0", "gpu/large", "zero"), device("1", "other/small", "one")}, health: []kubeletplugin.DeviceHealth{healthy("0", "", 0)},
		change: func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Claims[0].Request = "gpu" },
		want:   "claim:devices/gpu gpu=zero Healthy",
	},
	"a container without the claim": {
		devices: two, health: []kubeletplugin.DeviceHealth{healthy("0", "", 0)},
		change: func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Claims = nil },
	},
	"a socket in a folder below": {devices: two[:1], below: "a/b", want: "claim:devices gpu=zero Unknown"},
}

// TestClaimsLikeKubelet has kubelet's DRA manager and agent/claims call the same driver, and compares which CDI devices a container gets,
// and what its status says of them. The API server must take that status.
func TestClaimsLikeKubelet(t *testing.T) {
	for name, test := range casesLikeKubelet {
		t.Run(name, func(t *testing.T) {
			m := newNode(t)
			preparer, err := claims.Start(t.Context(), claims.Options{
				KubeClient: client, Recorder: &record.FakeRecorder{},
				RegistrationDir: filepath.Join(m.dir, "plugins_registry"), Checkpoint: filepath.Join(m.dir, "claims.json"),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(preparer.Stop)
			m.serve(&scriptedDriver{test.devices, test.health}, test.below, test.options...)
			var changes []func(*corev1.Pod)
			if test.change != nil {
				changes = append(changes, test.change)
			}
			pod := m.podWithClaim("pod", m.claim("claim", "0", "1"), changes...)
			if err := preparer.Await(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			kubelets := m.mustAdmit(pod).Containers["main"].CDI
			ours, err := preparer.CDIDevices(pod)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(kubelets)
			slices.Sort(ours["main"])
			if !slices.Equal(slices.Compact(kubelets), ours["main"]) {
				t.Errorf("CDI devices %q, kubelet has %q", ours["main"], kubelets)
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "example.com/main", ImageID: "1"}}
			m.until("kubelet says\n"+test.want, func() bool {
				answer := m.tell(kubelet.Request{Operation: kubelet.Health, Pod: pod})
				return len(answer.Statuses) == 1 && describe(answer.Statuses[0].AllocatedResourcesStatus) == test.want
			})
			said := func() []corev1.ResourceStatus { return preparer.ResourceStatus(pod)["main"] }
			m.until("agent/claims says\n"+test.want, func() bool { return describe(said()) == test.want })
			pod.Status.ContainerStatuses[0].AllocatedResourcesStatus = said()
			m.mustStore(pod, test.want)
		})
	}
}

// mustStore has the API server store what the status of a pod's containers says of devices.
func (m *machine) mustStore(pod *corev1.Pod, want string) {
	m.Helper()
	stored, err := client.CoreV1().Pods(namespace).Get(m.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		m.Fatal(err)
	}
	stored.Status.ContainerStatuses = pod.Status.ContainerStatuses
	if stored, err = client.CoreV1().Pods(namespace).UpdateStatus(m.Context(), stored, metav1.UpdateOptions{}); err != nil {
		m.Fatalf("the API server refuses the status: %v", err)
	}
	if got := describe(stored.Status.ContainerStatuses[0].AllocatedResourcesStatus); got != want {
		m.Errorf("the API server stores\n%s\nof\n%s", got, want)
	}
}

// serve starts a driver on the node.
func (m *machine) serve(d *scriptedDriver, below string, options ...kubeletplugin.Option) {
	m.Helper()
	registrar, data := filepath.Join(m.dir, "plugins_registry", filepath.FromSlash(below)), filepath.Join(m.dir, "plugins")
	for _, folder := range []string{registrar, data} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			m.Fatal(err)
		}
	}
	helper, err := kubeletplugin.Start(m.Context(), d, append([]kubeletplugin.Option{
		kubeletplugin.DriverName(driver), kubeletplugin.NodeName(m.node), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(registrar), kubeletplugin.PluginDataDirectoryPath(data),
	}, options...)...)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(helper.Stop)
}
