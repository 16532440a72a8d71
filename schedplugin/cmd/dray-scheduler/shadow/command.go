// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// flags has the values of the command's flags.
type flags struct {
	config, kubeconfig, metrics string
	settle                      time.Duration
}

// errDifferences is the error of the command if there are differences.
var errDifferences = errors.New("the schedulers disagree")

// Command returns the subcommand of dray-scheduler. It runs until it is interrupted, then prints the report. It
// is an error if there are differences.
func Command() *cobra.Command {
	f := flags{}
	command := &cobra.Command{
		Use:   "shadow",
		Short: "Compare what Dray would decide with what another scheduler does",
		Long: `shadow follows the pods of the profiles in the configuration file, which another scheduler schedules.
It compares the devices they get with those that Dray would take, and pods that are unschedulable with what Dray
finds. It reads, binds nothing and writes nothing. When it is interrupted, it prints what it found.

Exit status: 0 if it was interrupted and the two agree about all pods, else 1.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, command)
		},
		SilenceUsage: true,
	}
	set := command.Flags()
	set.StringVar(&f.config, "config", "", "file with the KubeSchedulerConfiguration that dray-scheduler would have")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "file with how to reach the API server; without, as in a pod")
	set.StringVar(&f.metrics, "metrics-bind-address", "", "address such as 127.0.0.1:10260 to serve /metrics on, without encryption; empty for none")
	set.DurationVar(&f.settle, "settle", 30*time.Second, "how long after a decision another pod may still explain it")
	compatibility.DefaultComponentGlobalsRegistry.AddFlags(set)
	_ = command.MarkFlagRequired("config") // the error is only about an unknown flag
	return command
}

func (f *flags) run(ctx context.Context, command *cobra.Command) error {
	configuration, err := options.LoadConfigFromFile(klog.FromContext(ctx), f.config)
	if err != nil {
		return fmt.Errorf("configuration %s: %w", f.config, err)
	}
	client, err := f.client(configuration)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	shadow, err := New(following, client, configuration.Profiles, f.settle)
	if err != nil {
		return err
	}
	if f.metrics != "" {
		if err := serveMetrics(following, f.metrics); err != nil {
			return err
		}
	}
	klog.InfoS("Shadow follows", "profiles", len(configuration.Profiles))
	<-ctx.Done()
	report := shadow.Report(true)
	fmt.Fprint(command.OutOrStdout(), report.Text(time.Now()))
	if n := report.Differences(); n > 0 {
		return fmt.Errorf("%w about %d pods", errDifferences, n)
	}
	return nil
}

func (f *flags) client(configuration *config.KubeSchedulerConfiguration) (kubernetes.Interface, error) {
	connection := configuration.ClientConnection
	if f.kubeconfig != "" {
		connection.Kubeconfig = f.kubeconfig
	}
	access, err := clientcmd.BuildConfigFromFlags("", connection.Kubeconfig)
	if err != nil {
		return nil, err
	}
	access.QPS, access.Burst = connection.QPS, int(connection.Burst)
	access = rest.AddUserAgent(access, "dray-shadow")
	access.Wrap(ReadOnly)
	return kubernetes.NewForConfig(access)
}

// serveMetrics serves metrics until the context ends.
func serveMetrics(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	paths := http.NewServeMux()
	paths.Handle("/metrics", legacyregistry.Handler())
	server := &http.Server{Handler: paths, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Metrics are no longer served")
		}
	}()
	return nil
}
