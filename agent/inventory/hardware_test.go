// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

const twoKinds = `
nodes:
- name: h200-{index:3}.example
  count: 3
  zones: [a, b]
  groups:
  - driver: d
    name: gpu
    count: 2
    attributes: {uuid: {string: "GPU-{node}-{device}-{index}"}, model: {string: H200}}
    taints: [{key: d/new, effect: NoSchedule}]
    counters: {m: 2}
    partitions: [{name: half, count: 2, counters: {m: 1}, attributes: {uuid: {string: "MIG-{index}-{device}"}}}]
  script:
  - {at: 1s, device: gpu-0, taint: {key: d/service, effect: NoSchedule}}
  - {at: 2s, node: h200-001.example, device: gpu-1, remove: true}
  - {at: 3s, notReady: {reason: Unplugged}}
  - {at: 4s, device: gpu-0, recover: true}
- name: plain
  capacity: {cpu: 0}
`

func writeHardware(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hardware.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHardware(t *testing.T) {
	hardware, err := ReadHardware(writeHardware(t, twoKinds))
	if err != nil {
		t.Fatal(err)
	}
	gpus, plain := &hardware.Nodes[0], &hardware.Nodes[1]
	if gpus.NodeName(2) != "h200-002.example" || gpus.Zone(2) != "a" || gpus.Zone(1) != "b" || plain.NodeName(0) != "plain" || plain.Number() != 1 || plain.Zone(0) != "" {
		t.Errorf("names %s, %s, zones %s, %s", gpus.NodeName(2), plain.NodeName(0), gpus.Zone(2), gpus.Zone(1))
	}
	in := gpus.Inventory(2, map[string]SimulatedEvent{"gpu-1": hardware.Nodes[0].Script[0]})
	var got []string
	for _, device := range in.Devices {
		got = append(got, fmt.Sprint(device.ID, " ", *device.Attributes["uuid"].StringValue, " ", len(device.Taints)))
	}
	want := []string{
		"d/h200-002.example/gpu-0 GPU-h200-002.example-gpu-0-2 1",
		"d/h200-002.example/gpu-0-half-0 MIG-2-gpu-0-half-0 1",
		"d/h200-002.example/gpu-0-half-1 MIG-2-gpu-0-half-1 1",
		"d/h200-002.example/gpu-1 GPU-h200-002.example-gpu-1-2 2",
		"d/h200-002.example/gpu-1-half-0 MIG-2-gpu-1-half-0 2",
		"d/h200-002.example/gpu-1-half-1 MIG-2-gpu-1-half-1 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if model := in.Devices[0].Attributes["model"].StringValue; *model != "H200" {
		t.Errorf("the model is %s", *model)
	}
	published := in.DriverResources("d", nil, nil).Pools["h200-002.example"].Slices
	last := published[len(published)-1].Devices
	if taints := last[len(last)-1].Taints; len(taints) != 2 || taints[1].Key != "d/service" || taints[1].Effect != resourceapi.DeviceTaintEffectNoSchedule {
		t.Errorf("published with the taints %v", taints)
	}
	if devices := plain.Inventory(0, nil).Devices; len(devices) > 0 {
		t.Errorf("a node without groups has %v", devices)
	}
}

// TestSimulationOfOneOfManyNodes has the script of one node played.
func TestSimulationOfOneOfManyNodes(t *testing.T) {
	path := writeHardware(t, twoKinds)
	for node, want := range map[string][]string{
		"h200-000.example": {"6 1 GPU-h200-000.example-gpu-0-0", "6 2 GPU-h200-000.example-gpu-0-0", "6 1 GPU-h200-000.example-gpu-0-0"},
		"h200-001.example": {"6 1 GPU-h200-001.example-gpu-0-1", "6 2 GPU-h200-001.example-gpu-0-1", "3 2 GPU-h200-001.example-gpu-0-1", "3 1 GPU-h200-001.example-gpu-0-1"},
	} {
		simulation, err := ReadSimulation(path, node)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			var got []string
			go func() {
				simulation.play(t.Context(), nil, func(in *Inventory) {
					got = append(got, fmt.Sprint(len(in.Devices), " ", len(in.Devices[0].Taints), " ", *in.Devices[0].Attributes["uuid"].StringValue))
				})
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", node, got, want)
			}
		})
	}
	if _, err := ReadSimulation(path, "h200-3.example"); err == nil || !strings.Contains(err.Error(), `hardware.yaml: nodes: none has the name "h200-3.example": their names are h200-{index:3}.example, plain`) {
		t.Errorf("a node that is not there: %v", err)
	}
}

func TestHardwareErrors(t *testing.T) {
	const gpus = "groups: [{driver: d, name: g, count: 2}]"
	for text, want := range map[string]string{
		"nodes: [{name: n}]\nscript: [{at: 1s, device: g-0, ready: true}]": "hardware.yaml:1: nodes: groups and script belong to each of them",
		"groups: [{driver: d, name: g, count: 1}]\nnodes: [{name: n}]":     "hardware.yaml:2: nodes: groups and script belong to each of them",
		"nodes:\n- name: n\n- {}":                                                                                         "hardware.yaml:3: nodes[1].name: is required",
		"nodes:\n- name: n\n  count: 2":                                                                                   `hardware.yaml:2: nodes[0].name: "n": {index} must be in it, because there are 2`,
		"nodes:\n- name: n-{index}\n  count: -1":                                                                          "hardware.yaml:3: nodes[0].count: -1: must not be negative",
		"nodes:\n- name: n-{index}\n  count: 100001":                                                                      "nodes: 100001 in all: at most 100000",
		"nodes:\n- name: N":                                                                                               `hardware.yaml:2: nodes[0].name: "N": a lowercase`,
		"nodes:\n- name: n-{indx}":                                                                                        `hardware.yaml:2: nodes[0].name: "n-{indx}": a lowercase`,
		"nodes:\n- {name: \"n-{index}\", count: 3}\n- name: n-1":                                                          `hardware.yaml:3: nodes[1].name: "n-1": another node has this name`,
		"nodes:\n- name: n\n  labels:\n    a b: c":                                                                        "hardware.yaml:3: nodes[0].labels: Invalid value: \"a b\"",
		"nodes:\n- name: n\n  region: b c":                                                                                `hardware.yaml:3: nodes[0].region: "b c": a valid label`,
		"nodes:\n- name: n\n  zones: [a, b c]":                                                                            `hardware.yaml:3: nodes[0].zones[1]: "b c": a valid label`,
		"nodes:\n- name: n\n  taints:\n  - {key: k, effect: Never}":                                                       `hardware.yaml:4: nodes[0].taints[0].effect: "Never": must be one of NoSchedule, PreferNoSchedule, NoExecute`,
		"nodes:\n- name: n\n  capacity:\n    cpu: -1":                                                                     "hardware.yaml:4: nodes[0].capacity.cpu: -1: must not be negative",
		"nodes:\n- name: n\n  capacity:\n    cpu: lots":                                                                   `hardware.yaml:4: nodes[0].capacity.cpu: "lots": quantities`,
		"nodes:\n- name: n\n  " + gpus + "\n  script:\n  - {at: 1s, node: m, ready: true}":                                `hardware.yaml:5: nodes[0].script[0].node: "m": none of these nodes`,
		gpus + "\nscript:\n- {at: 1s, device: g-0, silent: true}":                                                         `hardware.yaml:3: script[0].device: "g-0": notReady, silent and ready are for nodes`,
		gpus + "\nscript:\n- {at: 1s, silent: true, ready: true}":                                                         `hardware.yaml:3: script[0]: exactly one of`,
		gpus + "\nscript:\n- {at: 1s, device: g-0, ready: true}":                                                          `hardware.yaml:3: script[0].device: "g-0": notReady, silent and ready are for nodes`,
		gpus + "\nscript:\n- {at: 1s, device: g-0, taint: {key: k, effect: Bad}}":                                         `hardware.yaml:3: script[0].taint.effect: "Bad": must be one of None, NoSchedule, NoExecute`,
		gpus + "\nscript:\n- {at: -1s, device: g-0, add: true}":                                                           "script[0].at: -1s: must not be negative",
		"groups: [{driver: D, name: g, count: 1}]":                                                                        `groups[0].driver: "D": a lowercase`,
		"groups: [{driver: d, name: G, count: 1}]":                                                                        `groups[0].name: "G": a lowercase`,
		"groups: [{driver: d, name: " + strings.Repeat("n", 60) + ", count: 101}]":                                        "groups[0].name: \"" + strings.Repeat("n", 60) + "\": must be no more than 63",
		"groups: [{driver: d, name: g, count: 10001}]":                                                                    "groups[0].count: 10001: a node has at most 10000",
		"groups: [{driver: d, name: g, count: 9000}, {driver: d, name: h, count: 9000}]":                                  "groups: 18000 devices",
		"groups: [{driver: d, name: g, count: 9, pciBus: 250}]":                                                           "groups[0].pciBus: 250: the last device would have bus 258",
		"groups: [{driver: d, name: g, count: 9, shares: -1}]":                                                            "groups[0]: shares, pciBus",
		"groups: [{driver: d, name: g, count: 1}, {driver: d, name: g, count: 1}]":                                        "groups: device g-0 of driver d: is there twice",
		"groups: [{driver: d, name: g, count: 1, taints: [{key: '', effect: None}]}]":                                     "groups[0].taints[0].key: \"\":",
		"groups: [{driver: d, name: g, count: 1, counters: {m: 1}, partitions: [{name: P, count: 1, counters: {m: 1}}]}]": `groups[0].partitions[0].name: "P"`,
	} {
		if _, err := ReadHardware(writeHardware(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot error %v\nwant %q", text, err, want)
		}
	}
	if _, err := ReadHardware(writeHardware(t, "groups: [{driver: d, name: g, count: 300}, {driver: d, name: h, count: 9, pciBus: 247}]")); err != nil {
		t.Errorf("many devices without buses, and the last bus: %v", err)
	}
	_, err := ReadHardware(writeHardware(t, "nodes:\n- {name: A}\n- {name: B}"))
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two mistakes: %v", err)
	}
}
