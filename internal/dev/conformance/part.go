// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Part is one counterpart and what is run of it.
type Part struct {
	Name string
	// About says in one sentence what is run on what.
	About string
	// Counterpart is the path of the counterpart's module.
	Counterpart string
	// below is the path below the counterpart's module that the part is compiled as.
	below string
	// adapter is the folder below testdata that puts Dray in the counterpart's place.
	adapter string
	// module is the folder of Dray's module that is put there, "" for that of the library.
	module string
	// Tests of one package are compiled with Dray's sources if they use what that package does
	// not export. Nil if the adapter has all that is run.
	inPackage *inPackage
	// Of packages whose names Dray has, these are compared. Nothing is run then. Nil if the part
	// runs tests.
	names *names
	// Packages of the counterpart are run twice, with and without Dray. Nil if the adapter has
	// all that is run.
	twice *twice
	// Tests of this repository ask the counterpart and Dray. Nil if its own tests are run.
	own *own
	// Slow is set if it takes over three minutes, or if CI runs it as a stage by itself.
	Slow bool
	// otherWords tells from what a failed test printed that nothing but words differ. Nil if the
	// adapter prints refusedByBoth.
	otherWords func(output string) bool
	// Program is set instead of below and adapter if the counterpart is a program, read from a
	// checkout that the caller has.
	Program *Program
}

//go:embed testdata
var adapters embed.FS

// Parts are all parts that need nothing but the module proxy, in the order of the table.
var Parts = []Part{
	{
		Name:        "allocator",
		About:       "the cases of structured/internal/allocatortesting, on allocator/structured",
		Counterpart: "k8s.io/dynamic-resource-allocation",
		below:       "structured/dray",
		adapter:     "allocator",
	},
	{
		Name:        "cel",
		About:       "the tests of cel: compiling, the worst-case cost, evaluating, on cel",
		Counterpart: "k8s.io/dynamic-resource-allocation",
		below:       "cel/dray",
		adapter:     "cel",
		inPackage: &inPackage{
			tests: []string{"cel/cache_test.go", "cel/compile_test.go", "cel/errors_test.go", "cel/feature_enabled_test.go"},
			LeftOut: map[string]string{
				"BenchmarkDeviceMatches":            "no test",
				"TestCacheSemantic":                 "says what upstream's cache keeps: no refusals and no costs; Dray's keeps both",
				"TestCelEmulateFeatureFate":         "of a switch for upstream's own tests",
				"TestEnhanceRuntimeError":           "of the text of a hint; Dray's error has a field for its own",
				"TestEnhanceRuntimeErrorIdempotent": "as above",
			},
		},
	},
	{
		Name:        "slices",
		About:       "the tests of resourceslice's controller, on that of the agent",
		Counterpart: "k8s.io/dynamic-resource-allocation",
		below:       "resourceslice/dray",
		adapter:     "slices",
		module:      "agent",
		inPackage: &inPackage{
			sources: "resourceslice",
			tests:   []string{"resourceslice/resourceslicecontroller_test.go"},
			LeftOut: map[string]string{
				"TestControllerUpdateReconcilePoolWithNameValidation": "builds a Controller of upstream's private fields",
				"TestControllerPoolNameFieldSelector":                 "looks into upstream's private store",
				"TestGetIndexLength":                                  "of a private function",
				"TestEncodeIndex":                                     "of a private function",
				"TestDecodeIndex":                                     "of a private function",
			},
		},
		otherWords: sameNumberOfErrors,
	},
	{
		Name:        "names/drivers",
		About:       "nothing, and compares: each name, field and method that kubeletplugin and resourceslice export is in those of the agent, with the same type",
		Counterpart: "k8s.io/dynamic-resource-allocation",
		below:       "dray",
		module:      "agent",
		names:       &names{Imports: driverImports},
	},
	{
		Name:        "names/allocator",
		About:       "nothing, and compares: each name, field and method that structured exports is in allocator/structured, with the same type",
		Counterpart: "k8s.io/dynamic-resource-allocation",
		below:       "dray",
		names: &names{Imports: map[string]string{
			"k8s.io/dynamic-resource-allocation/structured": "github.com/dray-project/dray/allocator/structured",
		}},
	},
	{
		Name:        "names/node",
		About:       "nothing, and compares: each name, field and method that node, node/api and node/nodeutil export is in those of the agent, with the same type",
		Counterpart: virtualKubelet,
		below:       "dray",
		module:      "agent",
		names: &names{
			Version:  virtualKubeletRelease,
			Imports:  nodeImports,
			Internal: map[string]string{virtualKubelet + "/internal/queue": "github.com/dray-project/dray/agent/node/queue"},
		},
	},
	{
		Name:        "kubelet",
		About:       "dray-agent on a control plane, with kubelet's own device manager, DRA manager, plugin manager and pod-resources server: Dray's tests of claims, plugins, health, updates, and of either side killed; and agent/claims beside kubelet's DRA manager, on the same driver",
		Counterpart: "k8s.io/kubernetes",
		Slow:        true,
		// The tests mostly wait for what kubelet does every minute.
		own: &own{folder: "internal/dev/kubelet", flags: []string{"-parallel=8", "-timeout=30m", "."}},
	},
	{
		Name:        "karpenter",
		About:       "the scenarios of alloctest, and the workloads and questions of benchmarks, on Karpenter's allocator: it passes if its answer is Dray's",
		Counterpart: "sigs.k8s.io/karpenter",
		Slow:        true,
		own:         &own{folder: "benchmarks/karpenter", flags: []string{"."}, newerGo: true},
	},
	integration("api"),
	integration("default"),
	integration("ga"),
	integration("all"),
	{
		Name:        "scheduler/workloads",
		About:       "the short workloads of test/integration/scheduler_perf/dra as tests, with the in-tree plugin and with that of schedplugin",
		Counterpart: "k8s.io/kubernetes",
		below:       "dray",
		adapter:     "scheduler",
		module:      "schedplugin",
		Slow:        true,
		twice: &twice{
			packages: []string{"test/integration/scheduler_perf"},
			tested:   []string{"./scheduler_perf/dra/..."},
			imports:  map[string]string{"test/integration/util": "util"},
			flags:    []string{"-test.run=TestSchedulerPerf", "-test.short", "-v=0"},
		},
	},
	{
		Name:        "scheduler/queueing",
		About:       "the cases of test/integration/scheduler/queueing that name the plugin, with the in-tree plugin and with that of schedplugin",
		Counterpart: "k8s.io/kubernetes",
		below:       "dray",
		adapter:     "scheduler",
		module:      "schedplugin",
		Slow:        true,
		twice: &twice{
			packages: []string{"test/integration/scheduler/queueing"},
			tested:   []string{"./queueing"},
			imports:  map[string]string{"test/integration/util": "util"},
			edits: map[string][]edit{"test/integration/scheduler/queueing/queue.go": {
				{"configv1.Plugin{Name: pluginName}", "configv1.Plugin{Name: testutils.UnderTest(pluginName)}"},
			}},
			// The names of cases begin with those of the plugins that they run with.
			flags: []string{
				"-test.run=TestCoreResourceEnqueue/NodeResourcesFit/DynamicResources|TestCoreResourceEnqueue/NodeResourcesFit/NodeAffinity/DynamicResources",
				"-v=0",
			},
		},
	},
	{
		Name:        "scheduler/unit",
		About:       "the tests of the in-tree plugin that call what the framework calls, on that and on the plugin of schedplugin",
		Counterpart: "k8s.io/kubernetes",
		below:       "dray",
		adapter:     "scheduler",
		module:      "schedplugin",
		Slow:        true,
		twice: &twice{
			packages: []string{inTree},
			tested:   []string{"./dynamicresources"},
			LeftOut: map[string]string{
				inTree + "/extendeddynamicresources_test.go":                         "of private functions",
				inTree + "/nodeallocatabledynamicresources_test.go":                  "of private functions; part integration runs what they are for",
				inTree + "/prequeueing_race_test.go":                                 "makes the in-tree plugin's private struct",
				"TestGetPendingAllocation":                                           "of the manager, which Dray uses as it is",
				"TestMaybeRemoveClaimPendingAllocation":                              "of the manager, which Dray uses as it is",
				"TestSignalClaimPendingAllocation":                                   "of the manager, which Dray uses as it is",
				"Test_allocationResultRequiresDRAOptionalNodeOperations":             "of a private function",
				"Test_computesScore":                                                 "of a private function",
				"TestAllocatorSelection":                                             "of upstream's three allocators",
				"TestDynamicResources_DeferredResizeSkipped":                         "makes the in-tree plugin's private struct",
				"TestFilterReusesPendingAllocationRequiresDRAOptionalNodeOperations": "writes the in-tree plugin's private state",
				"TestGatherAllocatedState":                                           "of the manager, which Dray uses as it is",
				"TestNormalizeScore":                                                 "makes the in-tree plugin's private struct",
				"TestPodGroupPostFilter":                                             "writes the in-tree plugin's private state",
				"TestPostFilterNoOpStatusHasNoUserVisibleReason":                     "makes the in-tree plugin's private struct",
				"TestPreFilterReusesPendingAllocationWithNilNodeSelector":            "writes the in-tree plugin's private state",
				"TestPreQueueingHint":                                                "makes the in-tree plugin's private struct",
				"TestPreQueueingHint_SharedClaimMultiplePods":                        "makes the in-tree plugin's private struct",
				"TestPreQueueingHint_WithPodInIndexer":                               "makes the in-tree plugin's private struct",
			},
			edits: map[string][]edit{inTree + "/dynamicresources_test.go": {
				{"\tp               *DynamicResources\n", "\tp               underTest\n"},
				{"pl, err := New(tCtx, args, fh, features)", "pl, err := newUnderTest(tCtx, args, fh, features)"},
				{"tc.p = pl.(*DynamicResources)", "tc.p = pl"},
				{"assert.ErrorContains(tCtx, actualErr, expected.status.AsError().Error())", "sameRefusal(tCtx, expected.status, status)"},
			}},
		},
	},
}

// integration are the integration tests in one configuration of Kubernetes' features.
func integration(configuration string) Part {
	return Part{
		Name:        "scheduler/integration/" + configuration,
		About:       "test/integration/dra/" + configuration + " on a real API server, with the in-tree plugin and with that of schedplugin",
		Counterpart: "k8s.io/kubernetes",
		below:       "dray",
		adapter:     "scheduler",
		module:      "schedplugin",
		Slow:        true,
		twice: &twice{
			packages: []string{"test/integration/dra"},
			tested:   []string{"./dra/" + configuration},
			imports:  map[string]string{"test/integration/util": "util"},
			LeftOut: map[string]string{
				"test/integration/dra/main_test.go":                      "for the tests of the next file only",
				"test/integration/dra/resourcepoolstatusrequest_test.go": "of a controller",
			},
			edits: integrationEdits,
			// They mostly wait. With the default of logging, each writes 100 MB.
			flags: []string{"-test.parallel=4", "-v=0"},
		},
	}
}

// inTree is the folder of the in-tree plugin.
const inTree = "pkg/scheduler/framework/plugins/dynamicresources"

// sameNumberOfErrors holds if a test of the controller found all objects and all counts as it
// expects them, and as many errors, of which some have another text. An assertion about
// objects or counts would have printed where it is.
func sameNumberOfErrors(output string) bool {
	return strings.Contains(output, "expected errors:") && !strings.Contains(output, "Error Trace:")
}

// Select returns the parts with the given names, or without names those that need no checkout
// and are not slow. A name also stands for the parts below it: "drivers" for "drivers/dranet"
// and the others.
func Select(names []string) ([]Part, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(Parts), func(p Part) bool { return p.Slow }), nil
	}
	all := All()
	var selected []Part
	for _, name := range names {
		found := false
		for _, part := range all {
			if part.Name == name || strings.HasPrefix(part.Name, name+"/") {
				selected, found = append(selected, part), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	return selected, nil
}

// Programs are the parts that need a checkout, in the order of the table.
func Programs() []Part { return slices.Clone(programs) }

// All are all parts, in the order of the table.
func All() []Part { return slices.Concat(Parts, programs) }

// leftOut are the tests of a part that are not run, with why, and where they are.
func (p Part) leftOut() (from string, tests map[string]string) {
	switch {
	case p.inPackage != nil:
		return strings.Join(p.inPackage.tests, ", "), p.inPackage.LeftOut
	case p.twice != nil:
		return strings.Join(p.twice.packages, ", "), p.twice.LeftOut
	case p.Program != nil:
		return p.Program.leftOut()
	}
	return "", nil
}
