// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

func TestSimulateFlags(t *testing.T) {
	const one, many = "../../examples/node.yaml", "../../examples/fleet.yaml"
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("nodes:\n- name: a\n- name: b\n  cuont: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		"--hardware none":                      "--hardware: open none: no such file",
		"--hardware " + broken:                 "--hardware: " + broken + ":4: nodes[1].cuont: no such field",
		"--hardware " + many + " --nodes 3":    "--nodes: " + many + " says which nodes there are",
		"--hardware " + many + " --prefix x":   "--prefix: " + many + " says which nodes there are",
		"--hardware " + many + " --gpus 3":     "[hardware gpus]",
		"--hardware " + many + " --driver d":   "[hardware driver]",
		"--hardware " + one + " --nodes 0":     "--nodes: 0: at least 1 is required",
		"--nodes 0":                            "--nodes: 0, --gpus: 8: at least 1 node",
		"--gpus -1":                            "--gpus: -1: at least 1 node",
		"--delete --hardware " + one:           "[delete hardware]",
		"--delete --nodes 3":                   "[delete nodes]",
		"--delete-timeout 0s":                  "--delete-timeout: 0s: must be more than 0",
		"--kubeconfig none --hardware " + many: "--kubeconfig: ",
		"extra":                                "unknown command",
		"--hardware " + one + " --qps=-1":      "--qps: -1: must be more than 0",
		"--script none --hardware " + many:     "--script: ",
		"--script none --qps=1":                "--script: ", // after the rate was found right
		"--qps=0":                              "--qps: 0: must be more than 0",
	} {
		if _, err := execute(t, append([]string{"simulate"}, strings.Fields(arguments)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", arguments, err, want)
		}
	}
}

func TestSimulateHelp(t *testing.T) {
	text, err := execute(t, "simulate", "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Examples:\n", "--hardware agent/examples/fleet.yaml", "--delete\n", "--prepare-claims=false", "(default \"default\")"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestSimulateKinds has the nodes of both example files, as they are without a cluster.
func TestSimulateKinds(t *testing.T) {
	never := func(string) bool { return false }
	for path, want := range map[string]string{
		"":                          "simulated-{index} 10 80",
		"../../examples/node.yaml":  "simulated-{index} 10 280",
		"../../examples/fleet.yaml": "h200-{index:2} 4 104, l4-{index} 5 10, cpu-{index} 2 0",
	} {
		flags := simulateFlags{hardware: path, nodes: 10, prefix: "simulated-", driver: "gpu.example.com", gpus: 8}
		kinds, err := flags.kinds(never)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range kinds {
			kind, devices := &kinds[i], 0
			for index := range kind.Number() {
				devices += len(kind.Inventory(index, nil).Devices)
			}
			got = append(got, fmt.Sprint(kind.Name, " ", kind.Number(), " ", devices))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
		if err := (&inventory.Hardware{Nodes: kinds}).Validate(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	text, err := execute(t, "scan", "--simulate", "../../examples/fleet.yaml", "--node-name", "h200-03")
	if err != nil || !strings.Contains(text, "gpu-7-half-1") || !strings.Contains(text, "nic-1") {
		t.Errorf("error %v, printed\n%s", err, text)
	}
}

// TestResidentKiB compares with the pages that the kernel counts in another file.
func TestResidentKiB(t *testing.T) {
	var size, pages int64
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	want := pages * int64(os.Getpagesize()) / 1024
	if got, err := residentKiB(); err != nil || got < want/2 || got > 2*want {
		t.Errorf("%d KiB, %v; want about %d", got, err, want)
	}
}

// TestSimulateReports has the lines that a fleet prints, by the clock of the test, and what is left to delete.
func TestSimulateReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fakecluster.NewVersioned()
		nodes, err := fleet.New(fleet.Options{Client: client, Kinds: []inventory.SimulatedNodes{fleet.GPUs("n-", 2, "gpu.example.com", 1)}, Name: "f", IgnoreClaims: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = nodes.Run(ctx) })
		var out bytes.Buffer
		var requests atomic.Int64
		f := &simulateFlags{fleet: "f", report: 30 * time.Second, patience: time.Minute}
		running.Go(func() { f.reportOn(ctx, &out, nodes, &requests) })
		<-nodes.Ready()
		time.Sleep(time.Second)
		requests.Store(10)
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "2 of 2 nodes registered in ") || !strings.HasSuffix(lines[1], " KiB/node, 10.00 requests/node/minute") ||
			!strings.HasSuffix(lines[2], ", 0.00 requests/node/minute") {
			t.Errorf("printed %q", lines)
		}
		out.Reset()
		if err := f.deleteAll(t.Context(), &out, client); err != nil || out.String() != "deleted: nodes 2, leases 2, ResourceSlices 2, pods 0\n" {
			t.Errorf("%v, printed %q", err, out.String())
		}
	})
}
