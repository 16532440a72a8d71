// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"

	"github.com/dray-project/dray/internal/dev/conformance/scaling"
	"github.com/dray-project/dray/internal/dev/controlplane"
)

const (
	clusterAutoscaler   = "sigs.k8s.io/cluster-autoscaler"
	autoscalersSnapshot = "pkg/simulator/dynamicresources/snapshot"
	ourSnapshot         = "github.com/dray-project/dray/schedplugin/autoscaler"
)

// autoscaler is cluster-autoscaler with the patch of docs/cluster-autoscaler.md: points 1, 2 and 4. Its tests of
// its own snapshot run, too.
var autoscaler = Part{
	Name: "cluster-autoscaler",
	About: "cluster-autoscaler's tests of its simulator, estimator, core, custom resources and quotas, with the plugin of schedplugin " +
		"and the snapshot of schedplugin/autoscaler",
	Counterpart: clusterAutoscaler,
	module:      "schedplugin",
	Program: patchedAutoscaler(Program{
		Packages: []string{
			"./pkg/simulator/...", "./pkg/estimator/...", "./pkg/core/...", "./pkg/processors/customresources/...", "./pkg/resourcequotas/...",
		},
		// The names of some tests have random numbers in them.
		edits: map[string][]edit{"pkg/simulator/clustersnapshot/predicate/predicate_snapshot_test.go": {
			{"localRand := rand.New(rand.NewSource(time.Now().Unix()))", "localRand := rand.New(rand.NewSource(time.Unix(1, 0).Unix()))"},
		}},
		Forwarded: []forwarded{{folder: autoscalersSnapshot, adapter: "autoscaler"}},
	}),
}

// autoscalerLoop is the program of cluster-autoscaler. Without Dray, kube-scheduler has the in-tree plugin, too.
var autoscalerLoop = Part{
	Name: "cluster-autoscaler/loop",
	About: "cluster-autoscaler's program with its provider for kwok, kwok's nodes, a control plane and a scheduler: how many nodes come and go " +
		"for pods with devices. The cases are Dray's; autoscaler and scheduler have the in-tree plugin in one run, and Dray in the other",
	Counterpart: clusterAutoscaler,
	module:      "schedplugin",
	Program:     patchedAutoscaler(Program{Packages: []string{"./kwok"}, onPlane: scaleNodes}),
}

func patchedAutoscaler(program Program) *Program {
	program.Repository = "https://github.com/kubernetes-sigs/cluster-autoscaler"
	program.Commit = "33c3f97bf2749b1385d9223f1f8856fe345011f7"
	program.Imports = map[string]string{clusterAutoscaler + "/" + autoscalersSnapshot: ourSnapshot}
	program.patch = autoscalerPatch
	return &program
}

// scaleNodes has an event for each case of the package scaling.
func scaleNodes(ctx context.Context, c copied) (events []packageEvent, err error) {
	program, err := c.build(ctx, "./kwok")
	if err != nil {
		return nil, err
	}
	loop := scaling.Loop{Autoscaler: program, Binaries: c.bin(), Scheduler: controlplane.InTree}
	if c.swapped {
		loop.Scheduler = controlplane.Dray
	}
	progress := &reporter{to: c.Progress, what: fmt.Sprintf("%s with %s", clusterAutoscaler, loop.Scheduler.Plugin())}
	err = loop.Run(ctx, func(result scaling.Result) {
		ended := packageEvent{event: event{Test: result.Case, Action: string(Passed), Elapsed: result.Took.Seconds()}, Package: c.module + "/kwok"}
		if result.Err != nil {
			output := ended
			output.Action, output.Output = "output", result.Err.Error()
			ended.Action = string(Failed)
			events = append(events, output)
		}
		progress.report(ended)
		events = append(events, ended)
	})
	return events, err
}

// autoscalerPatch is points 2 and 4 of the patch, and the name that one file has for the package.
var autoscalerPatch = map[string][]edit{
	"pkg/processors/customresources/dra_processor.go": {
		{"\t\"" + clusterAutoscaler + "/" + autoscalersSnapshot + "\"\n", "\tsnapshot \"" + ourSnapshot + "\"\n"},
	},
	"pkg/simulator/framework/handle.go": {
		{
			"\n\t\"sigs.k8s.io/cluster-autoscaler/pkg/simulator/dynamicresources\"\n",
			"\n\t\"sigs.k8s.io/cluster-autoscaler/pkg/simulator/dynamicresources\"\n\n" +
				"\t\"github.com/dray-project/dray/schedplugin\"\n\tdrasnapshot \"" + ourSnapshot + "\"\n",
		},
		{"\tschedulerplugins \"k8s.io/kubernetes/pkg/scheduler/framework/plugins\"\n", ""},
		{
			"\tframework, err := schedulerframeworkruntime.NewFramework(\n",
			"\tregistry, err := schedplugin.Registry()\n\tif err != nil {\n\t\treturn nil, err\n\t}\n" +
				"\tprofile := schedConfig.Profiles[0]\n\tif err := drasnapshot.UseDray(&profile); err != nil {\n\t\treturn nil, err\n\t}\n" +
				"\tframework, err := schedulerframeworkruntime.NewFramework(\n",
		},
		{"\t\tschedulerplugins.NewInTreeRegistry(),\n\t\t&schedConfig.Profiles[0],\n", "\t\tregistry,\n\t\t&profile,\n"},
	},
	"pkg/simulator/clustersnapshot/predicate/predicate_snapshot.go": {
		{
			"return schedErr\n\t}\n\n\tif s.draEnabled && len(pod.Spec.ResourceClaims) > 0 {",
			"return schedErr\n\t}\n\n\tif s.draEnabled {",
		},
		{
			"return \"\", schedErr\n\t}\n\n\tif s.draEnabled && len(pod.Spec.ResourceClaims) > 0 {",
			"return \"\", schedErr\n\t}\n\n\tif s.draEnabled {",
		},
		{
			"\t\tif len(foundPod.Spec.ResourceClaims) > 0 {\n\t\t\tif err := s.draSnapshot.UnreservePodClaims(foundPod); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n",
			"\t\tif err := s.draSnapshot.UnreservePodClaims(foundPod); err != nil {\n\t\t\treturn err\n\t\t}\n",
		},
	},
}
