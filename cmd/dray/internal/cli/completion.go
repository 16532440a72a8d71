// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/workload"
)

// completer is the prefix of the program's name when kubectl runs it to complete arguments of the
// plugin.
const completer = "kubectl_complete-"

// completeSubject completes arguments of dray explain: pods that use claims, claims, and objects
// that make pods.
func (o *origin) completeSubject(command *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.complete(command.Context(), start, func(c *cluster.Cluster) []cobra.Completion {
		var names []cobra.Completion
		for _, key := range c.PodKeys() {
			if o.covers(key) && !slices.Contains(args, key.Name) && cluster.UsesDevices(c.Pod(key)) {
				names = append(names, cobra.CompletionWithDesc(key.Name, "Pod in "+key.Namespace))
			}
		}
		for _, key := range c.ClaimKeys() {
			if o.covers(key) {
				names = append(names, cobra.CompletionWithDesc("claim/"+key.Name, "ResourceClaim in "+key.Namespace))
			}
		}
		for _, controller := range c.Controllers() {
			kind, key := controller.Kind.Kind, types.NamespacedName{Namespace: controller.Object.GetNamespace(), Name: controller.Object.GetName()}
			if o.covers(key) {
				names = append(names, cobra.CompletionWithDesc(strings.ToLower(kind)+"/"+key.Name, kind+" in "+key.Namespace))
			}
		}
		if o.live() {
			names = append(names, o.makersOf(c)...)
		}
		return names
	})
}

// makersOf lists the objects for which pods with devices were made, as far as the pods have that
// information.
func (o *origin) makersOf(c *cluster.Cluster) []cobra.Completion {
	var names []cobra.Completion
	for _, key := range c.PodKeys() {
		pod := c.Pod(key)
		if !o.covers(key) || !cluster.UsesDevices(pod) {
			continue
		}
		kinds := workload.Makers()
		if owner := metav1.GetControllerOf(pod); owner != nil {
			kinds = append([]string{owner.Kind}, workload.Makers()...)
		}
		for _, kind := range kinds {
			if name := workload.MadeBy(pod, strings.ToLower(kind)); name != "" {
				names = append(names, cobra.CompletionWithDesc(strings.ToLower(kind)+"/"+name, kind+" in "+key.Namespace))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// completeContext completes the contexts of the kubeconfig.
func (o *origin) completeContext(_ *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := o.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for name := range config.Contexts {
		if strings.HasPrefix(name, start) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFlags completes the values of flags that all commands have.
func (o *origin) completeFlags(root *cobra.Command) {
	fixed := map[string][]cobra.Completion{
		"validate":      {string(input.FindingsFail), string(input.FindingsWarn), string(input.FindingsIgnore)},
		"device-policy": {"FirstFit", "LeastWaste", "Pack", "Spread"},
		"feature-gates": nil,
	}
	for i := range gates {
		fixed["feature-gates"] = append(fixed["feature-gates"], string(gates[i].name)+"=true", string(gates[i].name)+"=false")
	}
	for name, values := range fixed {
		// an error means that the flag does not exist
		_ = root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	_ = root.RegisterFlagCompletionFunc("namespace", o.completeNamespace)
	_ = root.RegisterFlagCompletionFunc("context", o.completeContext)
}

// completeNamespace completes the namespaces of pods and claims.
func (o *origin) completeNamespace(command *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.complete(command.Context(), start, func(c *cluster.Cluster) []cobra.Completion {
		var names []cobra.Completion
		for _, key := range slices.Concat(c.PodKeys(), c.ClaimKeys()) {
			names = append(names, key.Namespace)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
}

// completeDriver completes names of drivers.
func (o *origin) completeDriver(command *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.complete(command.Context(), start, func(c *cluster.Cluster) []cobra.Completion {
		var names []cobra.Completion
		for pool := range c.Ledger.State().Snapshot().Pools() {
			names = append(names, pool.ID().Driver)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
}

// completePool completes names of pools.
func (o *origin) completePool(command *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.complete(command.Context(), start, func(c *cluster.Cluster) []cobra.Completion {
		var names []cobra.Completion
		for pool := range c.Ledger.State().Snapshot().Pools() {
			if !slices.Contains(args, pool.ID().Name) {
				names = append(names, cobra.CompletionWithDesc(pool.ID().Name, "pool of "+pool.ID().Driver))
			}
		}
		return names
	})
}

// completeNode completes names of nodes.
func (o *origin) completeNode(command *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.complete(command.Context(), start, func(c *cluster.Cluster) []cobra.Completion {
		names := make([]cobra.Completion, len(c.Nodes))
		for i, node := range c.Nodes {
			names[i] = node.Name
		}
		return names
	})
}

// complete returns names with the prefix that the user has typed. If the cluster cannot be read,
// there are none: the command itself will report the error.
func (o *origin) complete(ctx context.Context, start string, names func(*cluster.Cluster) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	silent := *o
	silent.streams = Streams{In: strings.NewReader(""), Err: io.Discard}
	silent.verbose = false
	silent.files = readable(o.files)
	if len(o.files) > 0 && len(silent.files) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := silent.load(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	fitting := slices.DeleteFunc(names(c), func(name cobra.Completion) bool { return !strings.HasPrefix(name, start) })
	return fitting, cobra.ShellCompDirectiveNoFileComp
}

// readable returns the files that can be read during completion. Standard input cannot: its content
// arrives only when the command runs.
func readable(files []string) []string {
	var some []string
	for _, file := range files {
		// cobra parses the flags twice during completion
		if file != "-" && !slices.Contains(some, file) {
			some = append(some, file)
		}
	}
	return some
}

// covers reports whether the flags select the namespace of an object.
func (o *origin) covers(key types.NamespacedName) bool {
	return !o.namespaceGiven() || key.Namespace == o.namespace()
}

// addNode adds the flag --node.
func (o *origin) addNode(command *cobra.Command, node *string, usage string) {
	command.Flags().StringVar(node, "node", "", usage)
	// an error means that the flag does not exist
	_ = command.RegisterFlagCompletionFunc("node", o.completeNode)
}
