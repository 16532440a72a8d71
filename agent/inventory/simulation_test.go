// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

func TestSimulationExample(t *testing.T) {
	simulation, err := ReadSimulation("../examples/node.yaml", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		var log []string
		go func() {
			simulation.play(t.Context(), nil, func(in *Inventory) {
				unhealthy := ""
				for _, device := range in.Devices {
					if device.Health.Unhealthy {
						unhealthy += " " + device.ID.Device + "=" + device.Health.Reason
					}
				}
				log = append(log, fmt.Sprintf("%s: %d devices, %d counter sets%s", time.Since(started), len(in.Devices), len(in.CounterSets), unhealthy))
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{
			"0s: 28 devices, 8 counter sets",
			"10s: 28 devices, 8 counter sets gpu-3=DoubleBitEccError gpu-3-half-0=DoubleBitEccError gpu-3-half-1=DoubleBitEccError",
			"20s: 28 devices, 8 counter sets",
		}
		if !slices.Equal(log, want) {
			t.Errorf("reported\n%s\nwant\n%s", strings.Join(log, "\n"), strings.Join(want, "\n"))
		}
	})
	in := simulation.inventory(simulation.node, nil)
	last := in.Device(ID{gpus, "node-1", "gpu-7"})
	if last == nil || last.Topology.PCIBusID != "0000:17:00.0" || last.Topology.PCIeRoot != "pci0000:03" || !slices.Equal(last.Topology.NUMANodes, []int{1}) || !slices.Equal(last.Edits.Env, []string{"EXAMPLE_GPU=gpu-7"}) {
		t.Errorf("the last GPU is %+v", last)
	}
	if half := in.Device(ID{gpus, "node-1", "gpu-7-half-1"}); half == nil || half.Type != "" || half.Consumes[0].CounterSet != "gpu-7" {
		t.Errorf("its second half is %+v", half)
	}
}

func TestSimulationTellsUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	const text = `
groups:
- {driver: d, name: nic, count: 2, data: {port: "port of {device}"}, network: {interfaceName: "{device}", ips: [192.0.2.1/24]}}
- {driver: d, name: gpu, count: 1}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	simulation, err := ReadSimulation(path, "p")
	if err != nil {
		t.Fatal(err)
	}
	in := simulation.inventory(simulation.node, nil)
	for _, name := range []string{"nic-0", "nic-1"} {
		device := in.Device(ID{"d", "p", name})
		if device.Data["port"] != "port of "+name || device.Network.InterfaceName != name || !slices.Equal(device.Network.IPs, []string{"192.0.2.1/24"}) {
			t.Errorf("%s: data %v, network %v", name, device.Data, device.Network)
		}
	}
	if gpu := in.Device(ID{"d", "p", "gpu-0"}); len(gpu.Data) > 0 || gpu.Network != nil {
		t.Errorf("data %v, network %v", gpu.Data, gpu.Network)
	}
}

func TestSimulationRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	const text = `
groups: [{driver: d, name: g, count: 2}]
script: [{at: 1s, device: g-0, remove: true}, {at: 2s, device: g-0, add: true}]`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	simulation, err := ReadSimulation(path, "p")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var counts []int
		go func() {
			simulation.play(t.Context(), nil, func(in *Inventory) { counts = append(counts, len(in.Devices)) })
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(counts, []int{2, 1, 2}) {
			t.Errorf("%v devices", counts)
		}
	})
}

func TestSimulationErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "groups: at least one is required",
		"groups: [{name: g}]": "groups[0]: driver, name and a count of at least 1 are required",
		"unknown: 1":          "node.yaml:1: unknown: no such field",
		"groups: {":           "not valid YAML",
		"groups: [{driver: d, name: g, count: 1, partitions: [{name: p, count: 1}]}]":                                            "groups[0].partitions[0]: name, counters and a count",
		"groups: [{driver: d, name: g, count: 1, counters: {m: 1}, partitions: [{count: 1, counters: {m: 1}}]}]":                 "groups[0].partitions[0]: name, counters and a count",
		"groups: [{driver: d, name: g, count: 1, counters: {m: 1}, partitions: [{name: p, counters: {m: 1}}]}]":                  "groups[0].partitions[0]: name, counters and a count",
		"groups: [{driver: d, name: g, count: 1, partitions: [{name: p, count: 1, counters: {m: 1}}]}]":                          "counter m: the group has none",
		"groups: [{driver: d, name: g, count: 1}]\nscript: [{at: 1s, device: g-1, recover: true}]":                               `node.yaml:2: script[0].device: "g-1": there is no such device`,
		"groups: [{driver: d, name: g, count: 1}]\nscript: [{at: 1s, device: g-0}]":                                              "script[0]: exactly one of",
		"groups: [{driver: d, name: g, count: 1}]\nscript: [{at: 2s, device: g-0, add: true}, {at: 1s, device: g-0, add: true}]": "script[1]: at 1s comes after 2s",
	} {
		path := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSimulation(path, "p"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadSimulation(filepath.Join(t.TempDir(), "none"), "p"); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// TestSimulationFollowsItsFile has files that are valid, invalid and valid again. It runs
// by the machine's clock, because the kernel tells of changes.
func TestSimulationFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	write := func(text string) {
		t.Helper()
		// As editors do: nobody reads half of it.
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write("groups: [{driver: d, name: g, count: 1}]")
	simulation, err := ReadSimulation(path, "p")
	if err != nil {
		t.Fatal(err)
	}
	write("groups: [{driver: d, name: g, count: 2}]")
	reports, logged, done := make(chan *Inventory), make(chan string, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, text string) { logged <- text }, funcr.Options{})))
	go func() {
		done <- simulation.Run(ctx, func(in *Inventory) {
			select {
			case reports <- in:
			case <-ctx.Done():
			}
		})
	}()
	expect := func(what string, is func(*Inventory) bool) {
		t.Helper()
		for deadline := time.After(2 * time.Minute); ; {
			select {
			case in := <-reports:
				if is(in) {
					return
				}
			case <-deadline:
				t.Fatalf("not reported: %s", what)
			}
		}
	}
	// It was written before the watch began.
	expect("two devices", func(in *Inventory) bool { return len(in.Devices) == 2 })
	write("groups: [{driver: d, name: g, count: 3}]\nscript: [{at: 0s, device: g-1, fail: {reason: Broken, evict: true}}]")
	expect("a failure", func(in *Inventory) bool {
		return len(in.Devices) == 3 && in.Devices[1].Health == Health{Unhealthy: true, Evict: true, Reason: "Broken"}
	})
	write("groups: {")
	select {
	case text := <-logged:
		if !strings.Contains(text, "stay as they are") {
			t.Errorf("logged %s", text)
		}
	case <-time.After(2 * time.Minute):
		t.Error("nothing is said of an invalid file")
	}
	write("groups: [{driver: d, name: g, count: 4}]")
	expect("four devices", func(in *Inventory) bool { return len(in.Devices) == 4 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
