// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"

	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
	"github.com/dray-project/dray/internal/manual"
)

const rootLong = `dray allocates devices to ResourceClaims (Dynamic Resource Allocation,
resource.k8s.io) the way kube-scheduler does, without touching the cluster. It shows
what would be allocated where, why something cannot be, and what devices there are.

Pools, classes and claims of the prototype API devmgmtproto.k8s.io/v1alpha1 are
read, too: they count as what they mean in resource.k8s.io/v1 (see convert).

Objects are read from files, folders and standard input (-f), kustomizations (-k),
or else from the cluster of your kubeconfig. Nothing is ever written to the cluster.

Without a command it says what there is, and what can be asked about it.

Installed as kubectl-dray it is a plugin of kubectl. A link to it by the name of
kubectl_complete-dray completes pods, claims, pools and nodes for "kubectl dray".

Exit status: 0 if all that was asked about is placed, or can be. 1 if not. 2 for
wrong usage or input, or if there is no answer. 3 if nothing is known to have no
place, but a search was given up: see --budget. 130 if interrupted.`

const rootExample = `  # What can be asked about this cluster?
  dray --context staging

  # Where do the pending pods of these manifests go, and with which devices?
  dray allocate -f cluster/

  # Why does this pod of the live cluster not get its devices?
  dray explain trainer-0 -n ml

  # What devices are there, who has them, and what is left?
  dray devices --node gpu-worker-1`

// newRoot builds the command tree. Name is "dray" or "kubectl dray".
func newRoot(name string, streams Streams) *cobra.Command {
	origin := newOrigin(name, streams)
	root := &cobra.Command{
		Use:           "dray",
		Short:         "Allocate devices to Kubernetes ResourceClaims, and explain why not",
		Long:          rootLong,
		Example:       rootExample,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		RunE:          func(command *cobra.Command, _ []string) error { return origin.overview(command) },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	origin.addFlags(root.PersistentFlags())
	root.AddCommand(newAllocate(origin), newExplain(origin), newDevices(origin), newUsage(origin), newView(origin), newConvert(origin), newSimulate(origin), newVersion(origin), newOptions(name), manual.NewCommand())
	origin.completeFlags(root)
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		origin.limitTime(command)
		return origin.check(command.Flags())
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrongFlag(err) })
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate(), name))
	called(root, name)
	return root
}

// versionTimeout limits the request for the cluster's version.
const versionTimeout = 5 * time.Second

// overview describes the cluster, and lists commands for it. Without a cluster, it prints the help.
func (o *origin) overview(command *cobra.Command) error {
	title := "These manifests have"
	if o.live() {
		version, err := o.serverVersion(command.Context())
		if err != nil {
			if err := command.Help(); err != nil {
				return err
			}
			o.streams.note("\nNo cluster answers (%v): give one with --context or --kubeconfig, or manifests with -f.", err)
			return nil
		}
		title = "This cluster (Kubernetes " + version + ") has"
	}
	c, err := o.load(command.Context())
	if err != nil {
		return err
	}
	states, err := c.Inventory(nil)
	if err != nil {
		return err
	}
	total := usage.Count(c, usage.Inspect(c, states), usage.ByDriver)
	t, waiting := o.terminal(&output{}), len(c.Workloads())
	waits := map[int]string{0: "nothing waits", 1: "1 pod or claim waits"}[min(waiting, 2)]
	if waiting > 1 {
		waits = render.Count(waiting, "pod or claim") + " wait"
	}
	t.Paragraph(0, 0, fmt.Sprintf("%s %s and %s of %s; %s for devices.", title, render.Count(len(c.Nodes), "node"),
		render.Count(total.Total.Devices, "device"), render.Count(len(total.Rows), "driver"), waits))
	t.Line("")
	ask := func(what, question string) {
		t.Paragraph(0, 0, what+":")
		t.Line("  " + o.program + " " + question + t.Flags)
	}
	if waiting > 0 {
		ask("Why they wait, or where they can go", "explain -A")
		ask("What one of them could ask for instead", "explain NAME -n NAMESPACE --patch")
	}
	if len(c.Gangs()) > 0 {
		ask("Which pod groups can start together", "simulate gang")
	}
	if total.Total.Devices == 0 {
		t.Paragraph(0, 0, "No driver publishes devices: no ResourceSlice has any. A DRA driver has to run on the nodes.")
	} else {
		ask("Each device, who holds it, and what is left of it", "devices")
		ask(strings.TrimSuffix(render.UsageLine(&total.Total), "."), "usage")
		ask("Who could use a node, and why it is idle", "explain node/NAME -A")
		ask("How many more fit, and what if nodes are drained or added", "simulate --help")
	}
	ask("All of this as a page in a browser", "view")
	t.Line("")
	t.Line("\"" + o.program + " --help\" lists all commands.")
	return nil
}

// serverVersion returns the version of the cluster.
func (o *origin) serverVersion(ctx context.Context) (string, error) {
	if o.noCluster() {
		return "", errors.New("there is none in a kubeconfig")
	}
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return "", err
	}
	if config.Timeout == 0 || config.Timeout > versionTimeout {
		config.Timeout = versionTimeout
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	version, err := unlessDone(ctx, client.ServerVersion)
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}

// usageTemplate hides the persistent flags: there are so many that those of the command would be
// hard to find.
func usageTemplate(template, name string) string {
	const global = "{{if .HasAvailableInheritedFlags}}"
	start := strings.Index(template, global)
	if start < 0 {
		return template
	}
	length := strings.Index(template[start:], "{{end}}") + len("{{end}}")
	hint := global + "\n\nUse \"" + name + " options\" for the flags that all commands have, such as -f, -k, -n and --context.{{end}}"
	template = template[:start] + hint + template[start+length:]
	for _, of := range []string{"Runnable", "HasAvailableLocalFlags"} { // the root is itself a runnable command
		template = strings.Replace(template, "{{if ."+of+"}}", "{{if and .HasParent ."+of+"}}", 1)
	}
	return template
}

// newOptions lists the flags that all commands have.
func newOptions(name string) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Long: `List the flags that all commands have.

Exit status: 0, or 2 for wrong usage.`,
		Example: `  # Flags of all commands, such as -f and --context
  dray options`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "These flags can be used with every command of %s:\n\n%s", name, command.InheritedFlags().FlagUsages())
			return err
		},
	}
}

// limitTime ends the command when --timeout has passed.
func (o *origin) limitTime(command *cobra.Command) {
	if o.timeout > 0 {
		ctx, cancel := context.WithTimeoutCause(command.Context(), o.timeout, fmt.Errorf("--timeout: %s have passed", o.timeout))
		cobra.OnFinalize(cancel)
		command.SetContext(ctx)
	}
}

// called replaces the program's name in examples by the name under which it was called.
func called(command *cobra.Command, name string) {
	command.Example = replaceName(command.Example, name)
	for _, child := range command.Commands() {
		called(child, name)
	}
}

// noArguments is for commands without arguments. Its error assumes that an argument is meant as a
// file.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s has no arguments, got %q: files are given with -f", command.CommandPath(), args[0])
	}
	return nil
}

// someArguments is for commands with least to most arguments, which errors call name. A most of -1
// stands for no limit.
func someArguments(name string, least, most int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) < least {
			return fmt.Errorf("%s: %s is missing", command.CommandPath(), name)
		}
		if most >= 0 && len(args) > most {
			return fmt.Errorf("%s has one %s, got %s", command.CommandPath(), name, strings.Join(args, " "))
		}
		return nil
	}
}

// refuseUnknown makes the commands help and completion of cobra return an error for unknown
// arguments. The output of root must be set.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() {
		case "help":
			command.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		case "completion":
			command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
		}
	}
}

// wanted describes valid values of flags, by type.
var wanted = map[string]string{
	"bool": "true or false", "duration": "a duration, as in 30s or 1m30s", "int": "a whole number", "int64": "a whole number", "stringToInt": "NODE=COUNT,...",
}

// wrongFlag returns an error about the value of a flag, without the names of parser functions.
func wrongFlag(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	want, known := wanted[flag.Value.Type()]
	if !known {
		return fmt.Errorf("--%s %s: %w", flag.Name, invalid.GetValue(), errors.Unwrap(invalid))
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok && errors.Is(number, strconv.ErrRange) {
		want = "a smaller number"
	}
	return fmt.Errorf("--%s %s: want %s", flag.Name, invalid.GetValue(), want)
}
