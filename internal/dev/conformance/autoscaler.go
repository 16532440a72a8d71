// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

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
	Program: &Program{
		Repository: "https://github.com/kubernetes-sigs/cluster-autoscaler",
		Commit:     "33c3f97bf2749b1385d9223f1f8856fe345011f7",
		Packages: []string{
			"./pkg/simulator/...", "./pkg/estimator/...", "./pkg/core/...", "./pkg/processors/customresources/...", "./pkg/resourcequotas/...",
		},
		Imports: map[string]string{clusterAutoscaler + "/" + autoscalersSnapshot: ourSnapshot},
		patch:   autoscalerPatch,
		// The names of some tests have random numbers in them.
		edits: map[string][]edit{"pkg/simulator/clustersnapshot/predicate/predicate_snapshot_test.go": {
			{"localRand := rand.New(rand.NewSource(time.Now().Unix()))", "localRand := rand.New(rand.NewSource(time.Unix(1, 0).Unix()))"},
		}},
		Forwarded: []forwarded{{folder: autoscalersSnapshot, adapter: "autoscaler"}},
	},
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
