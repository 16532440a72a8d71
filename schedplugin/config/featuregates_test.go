// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features" // all feature gates of Kubernetes
)

var rewrite = flag.Bool("rewrite", false, "write docs/feature-gates.md anew")

// versions of Kubernetes that the page has a column for. The first one serves resource.k8s.io/v1.
var versions = []string{"1.34", "1.35", "1.36", "1.37"}

// gates says of each feature gate of device allocation what it permits, and what Dray does with it.
var gates = map[featuregate.Feature][2]string{
	"DRAAdminAccess":                              {"`adminAccess` of requests: devices that others use", "allocated. Off: such a claim is an error"},
	"DRAConsumableCapacity":                       {"devices of which several claims have shares, and requests for capacity", "allocated. Off: a device that allows it is given out as a whole"},
	"DRADerivedAttributes":                        {"attributes that a request defines by CEL, for constraints", "allocated"},
	"DRADeviceBindingConditions":                  {"devices that have to get ready before a pod is bound", "chosen last. The scheduler waits for them, the command line does not"},
	"DRADeviceCompatibilityGroups":                {"partitions that exclude each other", "allocated"},
	"DRADeviceTaintRules":                         {"DeviceTaintRules: taints by administrators", "read as taints of the devices"},
	"DRADeviceTaints":                             {"taints of devices, and tolerations of requests", "allocated. Off: taints are not looked at"},
	"DRAExtendedResource":                         {"devices for pods that ask for an extended resource", "allocated, with a claim as that of kube-scheduler"},
	"DRAFractionalCapacityRange":                  {"ranges of capacity with fractions", "allocated"},
	"DRAListTypeAttributes":                       {"attributes with lists of values", "allocated. Constraints compare the lists"},
	"DRANodeAllocatableResources":                 {"devices that take CPU or memory of their node", "the scheduler counts as kube-scheduler does. The command line refuses the gate"},
	"DRAOptionalNodeOperations":                   {"devices that need no driver on the node", "allocated only on nodes that declare the feature"},
	"DRAPartitionableDevices":                     {"partitions that draw on counters", "allocated. Off: devices with counters are not given out"},
	"DRAPartitionableDevicesType":                 {"a field of ResourceSlices for the kind of partitions", "no effect on what is allocated"},
	"DRAPrioritizedList":                          {"`firstAvailable`: alternatives in a request", "allocated, the first alternative that can be had"},
	"DRAResourceClaimDeviceStatus":                {"`status.devices` of claims", "the agent reports there. Binding conditions need it"},
	"DRAResourceClaimGranularStatusAuthorization": {"permissions for parts of the status of claims", "no effect on what is allocated. The roles have them"},
	"DRAResourcePoolStatus":                       {"ResourcePoolStatusRequests", "no effect on what is allocated"},
	"DRASchedulerFilterTimeout":                   {"a limit of time for the search on one node", "`filterTimeout` of the scheduler"},
	"DRAWorkloadResourceClaims":                   {"claims that the pods of a PodGroup share", "allocated, once for all pods of the group"},
}

// TestFeatureGates compares docs/feature-gates.md, the table of the command line and the table above with Kubernetes.
func TestFeatureGates(t *testing.T) {
	known := make(map[featuregate.Feature]featuregate.VersionedSpecs)
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		if strings.HasPrefix(string(name), "DRA") {
			known[name] = specs
		}
	}
	if !maps.EqualFunc(known, gates, func(featuregate.VersionedSpecs, [2]string) bool { return true }) {
		t.Fatalf("Kubernetes has the gates %q, the table %q", slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(gates)))
	}
	compareCommandLine(t, known)
	page := gatesPage(known)
	const path = "../../docs/feature-gates.md"
	if *rewrite {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != page {
		t.Errorf("docs/feature-gates.md is not what Kubernetes says (error %v): cd schedplugin && go test ./config -run FeatureGates -rewrite", err)
	}
}

var commandLineGate = regexp.MustCompile(`\{"(DRA\w+)", (true|false), (alpha|beta|ga),`)

// compareCommandLine wants the defaults and stages of the newest version in the table of the command line.
func compareCommandLine(t *testing.T, known map[featuregate.Feature]featuregate.VersionedSpecs) {
	t.Helper()
	text, err := os.ReadFile("../../cmd/dray/internal/cli/gates.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := commandLineGate.FindAllStringSubmatch(string(text), -1)
	if len(rows) != len(known) {
		t.Errorf("the command line has %d gates, Kubernetes %d", len(rows), len(known))
	}
	for _, row := range rows {
		spec := specAt(known[featuregate.Feature(row[1])], versions[len(versions)-1])
		if spec == nil || strconv.FormatBool(spec.Default) != row[2] || stage(spec) != row[3] {
			t.Errorf("gate %s of the command line is %s and %s, that of Kubernetes is %+v", row[1], row[2], row[3], spec)
		}
	}
}

func stage(spec *featuregate.FeatureSpec) string {
	switch spec.PreRelease {
	case featuregate.Alpha:
		return "alpha"
	case featuregate.Beta:
		return "beta"
	case featuregate.GA:
		return "ga"
	}
	return string(spec.PreRelease)
}

// specAt is what holds in a version, nil if the gate is not there yet. Of several for one version the last one holds, but for
// those that need components of which none is older: without --min-compatibility-version, the version before may be among them.
func specAt(specs featuregate.VersionedSpecs, at string) *featuregate.FeatureSpec {
	var found *featuregate.FeatureSpec
	held, oldest := version.MustParse(at), version.MustParse(at).SubtractMinor(1)
	for i := range specs {
		if !specs[i].Version.GreaterThan(held) && (specs[i].MinCompatibilityVersion == nil || !specs[i].MinCompatibilityVersion.GreaterThan(oldest)) {
			found = &specs[i]
		}
	}
	return found
}

func gatesPage(known map[featuregate.Feature]featuregate.VersionedSpecs) string {
	var b strings.Builder
	b.WriteString(`# Feature gates

A test writes this page from the code of Kubernetes (` + "`cd schedplugin && go test ./config -run FeatureGates -rewrite`" + `) and fails if it is not current.

` + "`dray-scheduler`" + ` has the gates of kube-scheduler 1.37, and the same defaults. ` + "`dray`" + ` takes ` + "`--feature-gates`" + ` for a cluster whose gates are set otherwise. In the
table, *on* and *off* are defaults, and *–* means that the version does not have the gate.

`)
	fmt.Fprintf(&b, "| gate | %s | what it permits | Dray |\n|---%s|---|---|\n", strings.Join(versions, " | "), strings.Repeat("|---", len(versions)))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		cells := []string{"`" + string(name) + "`"}
		for _, at := range versions {
			cell := "–"
			if spec := specAt(known[name], at); spec != nil {
				cell = stage(spec) + map[bool]string{true: ", on", false: ", off"}[spec.Default]
				cell = strings.Replace(cell, "ga,", "GA,", 1)
			}
			cells = append(cells, cell)
		}
		cells = append(cells, gates[name][0], gates[name][1])
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	b.WriteString("\nA claim that asks for something whose gate is off is refused with an error that names the gate. [Semantics](docs/semantics.md) has the rules of each feature.\n")
	return strings.ReplaceAll(b.String(), "](docs/", "](") // the page is there itself
}
