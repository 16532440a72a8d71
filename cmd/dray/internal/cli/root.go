package cli

import (
	"github.com/spf13/cobra"
)

const rootLong = `dray allocates devices to ResourceClaims (Dynamic Resource Allocation,
resource.k8s.io) the way kube-scheduler does, without touching the cluster: it
shows what would be allocated where, why something cannot be, and what devices
there are.

Objects are read from files, folders and standard input (-f), or else from the
cluster of your kubeconfig. Nothing is ever written to the cluster.

Installed as kubectl-dray it is a plugin of kubectl; a link to it by the name of
kubectl_complete-dray completes pods, claims and nodes for "kubectl dray".`

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
	root.AddCommand(newAllocate(origin), newExplain(origin), newDevices(origin), newVersion())
	called(root, name)
	return root
}

// called makes the examples say how the program was called.
func called(command *cobra.Command, name string) {
	command.Example = replaceName(command.Example, name)
	for _, child := range command.Commands() {
		called(child, name)
	}
}
