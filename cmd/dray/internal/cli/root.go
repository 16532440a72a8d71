package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/internal/manual"
)

const rootLong = `dray allocates devices to ResourceClaims (Dynamic Resource Allocation,
resource.k8s.io) the way kube-scheduler does, without touching the cluster. It shows
what would be allocated where, why something cannot be, and what devices there are.

Pools, classes and claims of the prototype API devmgmtproto.k8s.io/v1alpha1 are
read, too: they count as what they mean in resource.k8s.io/v1 (see convert).

Objects are read from files, folders and standard input (-f), kustomizations (-k),
or else from the cluster of your kubeconfig. Nothing is ever written to the cluster.

Installed as kubectl-dray it is a plugin of kubectl. A link to it by the name of
kubectl_complete-dray completes pods, claims, pools and nodes for "kubectl dray".

Exit status: 0 if all that was asked about is placed, or can be. 1 if not. 2 for
wrong usage or input, or if there is no answer. 130 if interrupted.`

const rootExample = `  # Where do the pending pods of these manifests go, and with which devices?
  dray allocate -f cluster/

  # Why does this pod of the live cluster not get its devices?
  dray explain trainer-0 -n ml

  # What devices are there, who has them, and what is left?
  dray devices --node gpu-worker-1`

// newRoot builds the command tree. Name is "dray" or "kubectl dray".
func newRoot(name string, streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "dray",
		Short:         "Allocate devices to Kubernetes ResourceClaims, and explain why not",
		Long:          rootLong,
		Example:       rootExample,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	origin := newOrigin(name, streams)
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

// usageTemplate does not list the flags that all commands have: there are so many of them
// that those of the command would be lost.
func usageTemplate(template, name string) string {
	const global = "{{if .HasAvailableInheritedFlags}}"
	start := strings.Index(template, global)
	if start < 0 {
		return template
	}
	length := strings.Index(template[start:], "{{end}}") + len("{{end}}")
	hint := global + "\n\nUse \"" + name + " options\" for the flags that all commands have, such as -f, -k, -n and --context.{{end}}"
	return strings.Replace(template[:start]+hint+template[start+length:], "{{if .HasAvailableLocalFlags}}", "{{if and .HasParent .HasAvailableLocalFlags}}", 1)
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

// called makes the examples say how the program was called.
func called(command *cobra.Command, name string) {
	command.Example = replaceName(command.Example, name)
	for _, child := range command.Commands() {
		called(child, name)
	}
}
