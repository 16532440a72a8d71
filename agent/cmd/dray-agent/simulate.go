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
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dray-project/dray/agent/provider/simulated"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	kubeconfig string
	script     string
	qps        float32
	report     time.Duration
	options    fleet.Options
}

func newSimulateCommand() *cobra.Command {
	var flags simulateFlags
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Run any number of simulated nodes with devices",
		Long: `Run simulated nodes in this process. Each has a lease, a ResourceSlice with GPUs, and runs
the pods that are bound to it, for as long as a script or their annotations say. Nothing
is executed. Nodes and ResourceSlices stay when the command ends.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return flags.run(ctx, command.OutOrStdout())
		},
	}
	f := command.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server (default: as a pod does)")
	f.IntVar(&flags.options.Nodes, "nodes", 10, "how many nodes")
	f.StringVar(&flags.options.Prefix, "prefix", "simulated-", "what `names` of nodes begin with")
	f.StringVar(&flags.options.Driver, "driver", "gpu.example.com", "`name` of the DRA driver of the GPUs")
	f.IntVar(&flags.options.Devices, "gpus", 8, "how many GPUs each node has")
	f.Int32Var(&flags.options.LeaseSeconds, "lease-duration", 40, "how many `seconds` leases last; a quarter of it is the time between renewals")
	f.StringVar(&flags.script, "script", "", "`file` that says what pods do (default: they run until they are deleted)")
	f.Float32Var(&flags.qps, "qps", 500, "how many requests a second the API server gets at most")
	f.DurationVar(&flags.report, "report", time.Minute, "`interval` at which memory and requests are printed; 0 for never")
	return command
}

func (f *simulateFlags) run(ctx context.Context, out io.Writer) error {
	if f.qps <= 0 {
		return fmt.Errorf("--qps: %g: must be more than 0", f.qps)
	}
	if f.script != "" {
		script, err := simulated.ReadScript(f.script)
		if err != nil {
			return fmt.Errorf("--script: %w", err)
		}
		f.options.Script = script
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	var requests atomic.Int64
	config.QPS, config.Burst = f.qps, max(1, int(f.qps))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counted{next, &requests} })
	if f.options.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	nodes, err := fleet.New(f.options)
	if err != nil {
		return err
	}
	// The report ends with the fleet, however that ends.
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { f.reportOn(ctx, out, nodes, &requests) })
	defer reporting.Wait()
	defer cancel()
	return nodes.Run(ctx)
}

// counted counts requests.
type counted struct {
	next     http.RoundTripper
	requests *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(request)
}

// reportOn prints how fast nodes were registered, and then what they cost.
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
		nodes.Registered(), f.options.Nodes, took.Seconds(), n/took.Seconds(), float64(requests.Load())/max(n, 1))
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

// residentKiB is what this process has in memory, as Linux tells it.
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
