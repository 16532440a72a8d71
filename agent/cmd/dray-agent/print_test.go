// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/inventory"
)

// TestTableOfDevices has each column of the table of dray-agent scan, with and without a value.
func TestTableOfDevices(t *testing.T) {
	in := &inventory.Inventory{Devices: []inventory.Device{
		{
			ID: inventory.ID{Driver: "gpu.example.com", Pool: "n", Device: "gpu-0"}, Type: "gpu", Shares: 4,
			Topology: inventory.Topology{PCIBusID: "0000:17:00.0", PCIeRoot: "pci0000:03", NUMANodes: []int{0, 1}}, Health: inventory.Health{Unhealthy: true, Reason: "Hot"},
		},
		{ID: inventory.ID{Driver: "nic.example.com", Pool: "n", Device: "nic-0"}, Health: inventory.Health{Unhealthy: true}},
		{ID: inventory.ID{Driver: "nic.example.com", Pool: "n", Device: "nic-1"}},
	}}
	var out strings.Builder
	printTable(&out, in)
	var got []string
	for line := range strings.Lines(out.String()) {
		var cells []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "   ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		got = append(got, strings.Join(cells, "|"))
	}
	want := []string{
		"DRIVER|DEVICE|TYPE|PCI ADDRESS|PCIE ROOT|NUMA NODE|SHARES|HEALTH",
		"gpu.example.com|gpu-0|gpu|0000:17:00.0|pci0000:03|0,1|4|unhealthy: Hot",
		"nic.example.com|nic-0|-|-|-|-|1|unhealthy",
		"nic.example.com|nic-1|-|-|-|-|1|healthy",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// TestSlicesHaveNames prints two pools of each of two drivers. Each slice has a name of its own, and a second time they
// are the same: kubectl apply takes what has one name for one object.
func TestSlicesHaveNames(t *testing.T) {
	in := &inventory.Inventory{}
	for _, at := range []string{"gpu.example.com/b", "gpu.example.com/a", "nic.example.com/a", "nic.example.com/b"} {
		driver, pool, _ := strings.Cut(at, "/")
		in.Devices = append(in.Devices, inventory.Device{ID: inventory.ID{Driver: driver, Pool: pool, Device: "device-" + pool}})
	}
	want := []string{
		"00000-gpu.example.com-n a of 1: device-a", "00001-gpu.example.com-n b of 1: device-b",
		"00000-nic.example.com-n a of 1: device-a", "00001-nic.example.com-n b of 1: device-b",
	}
	for range 10 {
		var out strings.Builder
		if err := printSlices(&out, in, "n"); err != nil {
			t.Fatal(err)
		}
		var list resourceapi.ResourceSliceList
		if err := yaml.UnmarshalStrict([]byte(out.String()), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, slice := range list.Items {
			got = append(got, fmt.Sprintf("%s %s of %d: %s", slice.Name, slice.Spec.Pool.Name, slice.Spec.Pool.ResourceSliceCount, slice.Spec.Devices[0].Name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("want -, got +\n%s", diff)
		}
	}
}

// TestHealthAnswers has the answers to probes of the agent.
func TestHealthAnswers(t *testing.T) {
	for text, err := range map[string]error{"ok\n": nil, "the source has ended\n": errors.New("the source has ended")} {
		recorder := httptest.NewRecorder()
		answer(func() error { return err })(recorder, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		want := http.StatusOK
		if err != nil {
			want = http.StatusServiceUnavailable
		}
		if recorder.Code != want || recorder.Body.String() != text {
			t.Errorf("%v: %d %q", err, recorder.Code, recorder.Body)
		}
	}
}

// TestNodeOfProcesses has the node that is registered for pods that run as processes, and its address.
func TestNodeOfProcesses(t *testing.T) {
	node, err := nodeObject("n")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"kubernetes.io/hostname": "n", "kubernetes.io/os": runtime.GOOS, "kubernetes.io/arch": runtime.GOARCH}
	if diff := cmp.Diff(labels, node.Labels); diff != "" || node.Name != "n" {
		t.Errorf("node %s; labels: want -, got +\n%s", node.Name, diff)
	}
	room := node.Status.Allocatable
	if room.Cpu().Value() != int64(runtime.NumCPU()) || room.Pods().Value() != 110 || room.Memory().Value() < 1<<26 || cmp.Diff(room, node.Status.Capacity) != "" {
		t.Errorf("allocatable %v, capacity %v", room, node.Status.Capacity)
	}
	ready := node.Status.Conditions[0]
	if ready.Type != corev1.NodeReady || ready.Status != corev1.ConditionTrue || ready.Reason != "VirtualNode" || ready.Message == "" || ready.LastTransitionTime.IsZero() {
		t.Errorf("condition %+v", ready)
	}
	if info := node.Status.NodeInfo; info.OperatingSystem != runtime.GOOS || info.Architecture != runtime.GOARCH || info.KubeletVersion != "v1.37.2-dray" {
		t.Errorf("information %+v", info)
	}

	a := &agent{flags: &runFlags{sourceFlags: sourceFlags{nodeName: "n"}}}
	if listener, err := a.listenForPods(node); err != nil || listener != nil || node.Status.DaemonEndpoints.KubeletEndpoint.Port != 0 || net.ParseIP(node.Status.Addresses[0].Address) == nil {
		t.Errorf("without --pods-listen: %v, %v, %+v", listener, err, node.Status)
	}
	a.flags.podsListen = "127.0.0.1:0"
	listener, err := a.listenForPods(node)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeIf(listener) }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if got := strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)); got != port {
		t.Errorf("port %s, want %s", got, port)
	}
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: "n"}}
	if diff := cmp.Diff(want, node.Status.Addresses); diff != "" {
		t.Errorf("addresses: want -, got +\n%s", diff)
	}
	a.flags.podsListen = listener.Addr().String()
	if _, err := a.listenForPods(node); err == nil || !strings.HasPrefix(err.Error(), "--pods-listen: ") {
		t.Errorf("an address in use: %v", err)
	}
	if err := closeIf(nil); err != nil {
		t.Errorf("nothing is closed: %v", err)
	}
}
