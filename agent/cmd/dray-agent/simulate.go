// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	kubeconfig string
	hardware   string
	nodes      int
	prefix     string
	driver     string
	gpus       int
	fleet      string
	delete     bool
	patience   time.Duration
	claims     bool
	script     string
	lease      int32
	qps        float32
	report     time.Duration
}

func newSimulateCommand() *cobra.Command {
	var flags simulateFlags
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Run any number of simulated nodes with devices",
		Long: `Run simulated nodes in this process. Each has a lease and ResourceSlices with its devices. It
runs the pods that are bound to it, for as long as a script or their annotations say. Nothing
is executed. Claims of pods are prepared as kubelet and a driver do it. A pod runs when it has
its devices, and status.devices of its claims says how these are.

--hardware describes the nodes: kinds of nodes with labels, zones, taints and capacity, their
devices, and what happens to them. "dray-agent run --simulate" reads the same file. A file
with the devices of one node is for --nodes equal nodes. Without a file, these have --gpus GPUs.

Nodes, leases and ResourceSlices stay when the command ends. The next run with the same names
and the same --fleet goes on with them; --delete deletes them.

Exit status: 0 if it was interrupted, or if all is deleted. 1 for wrong usage or after an error.`,
		Example: `  # ten nodes with eight GPUs each
  dray-agent simulate --kubeconfig ~/.kube/config

  # nodes of several kinds, whose devices fail as their scripts say
  dray-agent simulate --kubeconfig ~/.kube/config --hardware agent/examples/fleet.yaml

  # 5,000 nodes; nobody looks at claims, which saves requests
  dray-agent simulate --kubeconfig ~/.kube/config --nodes 5000 --prepare-claims=false

  # delete what earlier runs left: nodes, leases, ResourceSlices, and the pods on these nodes
  dray-agent simulate --kubeconfig ~/.kube/config --delete`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return flags.run(ctx, command.OutOrStdout(), command.Flags().Changed)
		},
	}
	f := command.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server (default: as a pod does)")
	f.StringVar(&flags.hardware, "hardware", "", "YAML `file` that describes the nodes and their devices")
	f.IntVar(&flags.nodes, "nodes", 10, "how many nodes, unless the file describes kinds of nodes")
	f.StringVar(&flags.prefix, "prefix", "simulated-", "what `names` of nodes begin with, unless the file describes kinds of nodes")
	f.StringVar(&flags.driver, "driver", "gpu.example.com", "`name` of the DRA driver of the GPUs, without --hardware")
	f.IntVar(&flags.gpus, "gpus", 8, "how many GPUs each node has, without --hardware")
	f.StringVar(&flags.fleet, "fleet", fleet.DefaultName, "`value` of the label "+fleet.LabelFleet+" of all that is created, which tells these nodes from those of other runs")
	f.BoolVar(&flags.delete, "delete", false, "delete what runs with the same --fleet left, and end: nodes, leases, ResourceSlices, and all pods that are bound to these nodes")
	f.DurationVar(&flags.patience, "delete-timeout", time.Minute, "how long --delete waits until all is gone")
	f.BoolVar(&flags.claims, "prepare-claims", true, "prepare claims of pods, and write their status.devices")
	f.Int32Var(&flags.lease, "lease-duration", 40, "how many `seconds` leases last; a quarter of it is the time between renewals")
	f.StringVar(&flags.script, "script", "", "`file` that says what pods do (default: they run until they are deleted)")
	f.Float32Var(&flags.qps, "qps", 500, "how many requests a second the API server gets at most")
	f.DurationVar(&flags.report, "report", time.Minute, "`interval` at which memory and requests are printed; 0 for never")
	for _, other := range []string{"driver", "gpus"} {
		command.MarkFlagsMutuallyExclusive("hardware", other)
	}
	for _, other := range []string{"hardware", "nodes", "prefix", "driver", "gpus", "script"} {
		command.MarkFlagsMutuallyExclusive("delete", other)
	}
	return command
}

func (f *simulateFlags) run(ctx context.Context, out io.Writer, changed func(flag string) bool) error {
	switch {
	case f.qps <= 0:
		return fmt.Errorf("--qps: %g: must be more than 0", f.qps)
	case f.patience <= 0:
		return fmt.Errorf("--delete-timeout: %s: must be more than 0", f.patience)
	}
	kinds, err := f.kinds(changed)
	if err != nil {
		return err
	}
	options := fleet.Options{Kinds: kinds, Name: f.fleet, LeaseSeconds: f.lease, IgnoreClaims: !f.claims}
	if f.script != "" {
		if options.Script, err = simulated.ReadScript(f.script); err != nil {
			return fmt.Errorf("--script: %w", err)
		}
	}
	config, err := access(f.kubeconfig)
	if err != nil {
		return err
	}
	var requests atomic.Int64
	config.QPS, config.Burst = f.qps, max(1, int(f.qps))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counted{next, &requests} })
	if options.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if f.delete {
		return f.deleteAll(ctx, out, options.Client)
	}
	nodes, err := fleet.New(options)
	if err != nil {
		return err
	}
	// The goroutine that reports ends with the fleet.
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { f.reportOn(ctx, out, nodes, &requests) })
	defer reporting.Wait()
	defer cancel()
	return nodes.Run(ctx)
}

// kinds returns the kinds of nodes that the flags describe.
func (f *simulateFlags) kinds(changed func(flag string) bool) ([]inventory.SimulatedNodes, error) {
	if f.hardware == "" {
		if f.nodes < 1 || f.gpus < 0 {
			return nil, fmt.Errorf("--nodes: %d, --gpus: %d: at least 1 node with at least 0 GPUs is required", f.nodes, f.gpus)
		}
		return []inventory.SimulatedNodes{fleet.GPUs(f.prefix, f.nodes, f.driver, f.gpus)}, nil
	}
	hardware, err := inventory.ReadHardware(f.hardware)
	if err != nil {
		return nil, fmt.Errorf("--hardware: %w", err)
	}
	if len(hardware.Nodes) > 0 {
		for _, flag := range []string{"nodes", "prefix"} {
			if changed(flag) {
				return nil, fmt.Errorf("--%s: %s says which nodes there are", flag, f.hardware)
			}
		}
		return hardware.Nodes, nil
	}
	if f.nodes < 1 {
		return nil, fmt.Errorf("--nodes: %d: at least 1 is required", f.nodes)
	}
	return []inventory.SimulatedNodes{{Name: f.prefix + "{index}", Count: f.nodes, SimulatedDevices: hardware.SimulatedDevices}}, nil
}

func (f *simulateFlags) deleteAll(ctx context.Context, out io.Writer, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience, fmt.Errorf("not all is gone after %s", f.patience))
	defer cancel()
	deleted, err := fleet.Delete(ctx, client, f.fleet)
	fmt.Fprintf(out, "deleted: nodes %d, leases %d, ResourceSlices %d, pods %d\n", deleted.Nodes, deleted.Leases, deleted.Slices, deleted.Pods)
	return err
}

// counted is a RoundTripper that counts requests.
type counted struct {
	next     http.RoundTripper
	requests *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(request)
}

// reportOn prints the rate of registration, and later the resource usage of the nodes.
func (f *simulateFlags) reportOn(ctx context.Context, out io.Writer, nodes *fleet.Fleet, requests *atomic.Int64) {
	began := time.Now()
	select {
	case <-ctx.Done():
		return
	case <-nodes.Ready():
	}
	n := float64(nodes.Registered())
	took := time.Since(began)
	fmt.Fprintf(out, "%d of %d nodes registered in %.1f s: %.1f nodes/s, %.1f requests/node\n",
		nodes.Registered(), nodes.Nodes(), took.Seconds(), n/took.Seconds(), float64(requests.Load())/max(n, 1))
	if f.report <= 0 || n == 0 {
		return
	}
	ticker := time.NewTicker(f.report)
	defer ticker.Stop()
	for {
		before := requests.Load()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		made := float64(requests.Load() - before)
		memory := "unknown memory"
		if kib, err := residentKiB(); err == nil {
			memory = fmt.Sprintf("%.1f MiB of memory, %.1f KiB/node", float64(kib)/1024, float64(kib)/n)
		}
		fmt.Fprintf(out, "%s, %.2f requests/node/minute\n", memory, made/n/f.report.Minutes())
	}
}

// residentKiB returns the resident memory of this process in KiB, from /proc.
func residentKiB() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib, nil
		}
	}
	return 0, errors.New("VmRSS is not in /proc/self/status")
}
