// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/nodedriver"
)

// runFlags are the flags of run, in addition to those of the source.
type runFlags struct {
	sourceFlags
	kubeconfig string
	kubeletDir string
	cdiDir     string
	listen     string
	withdraw   bool
	dra        bool
	plugin     bool
	pods       bool
	podsRoot   bool
	taint      bool
	podsListen string
	clientCA   string
	tlsCert    string
	tlsKey     string
	podUID     string
}

func newRunCommand() *cobra.Command {
	var flags runFlags
	command := &cobra.Command{
		Use:   "run",
		Short: "Publish the devices of the node, and serve them to kubelet",
		Long: `Publish the devices of the node as ResourceSlices, and serve them to kubelet through both
of its interfaces: Dynamic Resource Allocation, and device plugins. A device that one of
them handed out is kept from the other.

With --run-pods, there is no kubelet. The agent registers the node, has the claims of its
pods prepared, and runs the commands of their containers as processes of this machine.
Images are not run: processes see the machine's files, as far as their user may. They run as
the user of their pod, or as nobody, with their own network and without capabilities. What a
pod asks for and a process cannot have is refused. It is for demonstrations and tests.

The port of --listen serves /metrics, /healthz and /readyz.

Exit status: 0 if it was interrupted, 1 for wrong usage or after an error.`,
		Example: `  # What this machine has, with the node's permissions
  dray-agent run --sysfs --driver pci.example.com --node-name node-1

  # Simulated devices, which fail as the script in the file says
  dray-agent run --simulate agent/examples/node.yaml --node-name node-1 --kubeconfig ~/.kube/config

  # A node without kubelet, whose pods are processes of this machine
  dray-agent run --simulate agent/examples/node.yaml --node-name node-2 --kubeconfig ~/.kube/config --run-pods --device-plugin=false`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return flags.run(ctx)
		},
	}
	flags.sourceFlags.add(command)
	f := command.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server (default: as a pod does)")
	f.StringVar(&flags.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's `folder`")
	f.StringVar(&flags.cdiDir, "cdi-dir", "/var/run/cdi", "`folder` of CDI files")
	f.StringVar(&flags.listen, "listen", "127.0.0.1:9464", "`address` for metrics and health, or empty for none; without a host, all addresses of the machine")
	f.BoolVar(&flags.withdraw, "withdraw", false, "delete the ResourceSlices at the end; without, they stay for the next start")
	f.BoolVar(&flags.dra, "dra", true, "serve Dynamic Resource Allocation")
	f.BoolVar(&flags.plugin, "device-plugin", true, "serve device plugins")
	f.StringVar(&flags.podUID, "pod-uid", os.Getenv("POD_UID"), "`UID` of the agent's pod: agents with different ones may run at the same time, as in a rolling update (default $POD_UID)")
	f.BoolVar(&flags.pods, "run-pods", false, "run the node's pods as processes, in kubelet's place; needs --device-plugin=false")
	f.BoolVar(&flags.podsRoot, "pods-may-be-root", false, "let pods run as this machine's root, if they ask for the user or the group 0; without, these pods are refused. Such a pod reads and changes all files that belong to root, as this agent's credentials")
	f.BoolVar(&flags.taint, "taint-node", true, "register the node with the taint "+processesTaint+":NoSchedule, so that only pods run here that tolerate it")
	f.StringVar(&flags.podsListen, "pods-listen", ":10250", "`address` of kubelet's HTTPS API, which kubectl logs needs; empty for none")
	f.StringVar(&flags.clientCA, "client-ca-file", "", "`file` of the authorities whose client certificates kubelet's API accepts, the API server's among them; without, it accepts only tokens")
	f.StringVar(&flags.tlsCert, "tls-cert-file", "", "`file` of the certificate of kubelet's API (default: one that it signs itself)")
	f.StringVar(&flags.tlsKey, "tls-private-key-file", "", "`file` of the key of that certificate")
	command.MarkFlagsRequiredTogether("tls-cert-file", "tls-private-key-file")
	return command
}

func (f *runFlags) run(ctx context.Context) error {
	source, err := f.source()
	if err != nil {
		return err
	}
	if !f.dra && !f.plugin {
		return errors.New("nothing to serve: neither --dra nor --device-plugin")
	}
	if f.pods && (f.plugin || !f.dra) {
		return errors.New("--run-pods: pods get devices through Dynamic Resource Allocation only: needs --dra and --device-plugin=false")
	}
	config, err := access(f.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	a, err := newAgent(f, client, source)
	if err != nil {
		return err
	}
	return a.run(ctx)
}

// Rate limits of the client. They are kubelet's defaults. With client-go's defaults of 5 and 10,
// many pods at once would be delayed by minutes.
const (
	clientQPS   = 50
	clientBurst = 100
)

// newAgent returns an agent whose ports are already open. They are closed when run ends.
func newAgent(f *runFlags, client kubernetes.Interface, source inventory.Source) (*agent, error) {
	var fronts []inventory.Front
	if f.dra {
		fronts = append(fronts, inventory.FrontDRA)
	}
	if f.plugin {
		fronts = append(fronts, inventory.FrontDevicePlugin)
	}
	node, err := nodedriver.New(nodedriver.Options{
		NodeName: f.nodeName, Client: client, Source: source, KubeletDir: f.kubeletDir, CDIDir: f.cdiDir,
		Fronts: fronts, Instance: types.UID(f.podUID), NoKubelet: f.pods, Withdraw: f.withdraw,
	})
	if err != nil {
		return nil, err
	}
	status, err := listenForStatus(f.listen)
	if err != nil {
		return nil, err
	}
	return &agent{flags: f, client: client, node: node, status: status}, nil
}
