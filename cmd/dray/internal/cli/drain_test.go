// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// groupCluster writes manifests of nodes with GPUs, and of pods of a PodGroup of the name gang.
type groupCluster struct{ strings.Builder }

func newGroupCluster() *groupCluster {
	c := &groupCluster{}
	c.WriteString("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}\n---\n" +
		"{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: gpu}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}}\n")
	return c
}

// node adds a node with room for pods, in a zone, with a GPU for each rail.
func (c *groupCluster) node(name, zone string, pods int, rails ...int) *groupCluster {
	fmt.Fprintf(c, "---\n{apiVersion: v1, kind: Node, metadata: {name: %[1]s, labels: {zone: %[2]s}}, status: {allocatable: {pods: %[3]d}}}\n---\n"+
		"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s}, spec: {driver: gpu.example.com, nodeName: %[1]s, pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}, devices: [", name, zone, pods)
	for i, rail := range rails {
		fmt.Fprintf(c, "{name: gpu-%d, attributes: {rail: {int: %d}}}, ", i, rail)
	}
	c.WriteString("]}}\n")
	return c
}

// group adds the PodGroup.
func (c *groupCluster) group(extension, spec string) *groupCluster {
	fmt.Fprintf(c, "---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: gang, annotations: {dray-project.github.io/extension: '%s'}}, spec: {%s}}\n", extension, spec)
	return c
}

// runs adds a pod of the group that runs with a GPU of a node.
func (c *groupCluster) runs(name, node, device string) *groupCluster {
	fmt.Fprintf(c, "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %[1]s-gpu, uid: %[1]s-gpu, annotations: {resource.kubernetes.io/pod-claim-name: gpu}, ownerReferences: [{apiVersion: v1, kind: Pod, name: %[1]s, uid: %[1]s, controller: true}]}, "+
		"spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}, status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: %[2]s, device: %[3]s}]}}, reservedFor: [{resource: pods, name: %[1]s, uid: %[1]s}]}}\n---\n"+
		"{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, uid: %[1]s, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]}, spec: {nodeName: %[2]s, schedulingGroup: {podGroupName: gang}, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}, "+
		"status: {phase: Running, resourceClaimStatuses: [{name: gpu, resourceClaimName: %[1]s-gpu}]}}\n", name, node, device)
	return c
}

// waits adds a pod of the group that waits.
func (c *groupCluster) waits(name string) *groupCluster {
	fmt.Fprintf(c, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {schedulingGroup: {podGroupName: gang}, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}}\n", name)
	return c
}

const (
	sameRail   = `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`
	ratherRail = `{"preferred": [{"matchAttribute": "gpu.example.com/rail"}]}`
	nothing    = "{}"
	ofTwo      = "schedulingPolicy: {gang: {minCount: 2}}"
	sameZone   = ofTwo + ", schedulingConstraints: {topology: [{key: zone}]}"
)

// The pods of a group that leave a node must have in common what those have that stay.
func TestDrainOfGroups(t *testing.T) {
	for name, test := range map[string]struct {
		cluster *groupCluster
		nodes   string
		status  int
		want    string
	}{
		"no node with what the other has": {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 1, 1).group(sameRail, ofTwo), "b", cli.ExitNotPlaced, "POD NODE b cannot go: 1 pod without another place, 0 undecided PodGroup default/gang: gpu.example.com/rail=0 comes closest: 0 of 1 pod"},
		"a node with what the other has":  {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 1, 1, 0).group(sameRail, ofTwo), "b", cli.ExitOK, "POD NODE default/two c"},
		"both go, and agree anew":         {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 2, 1, 1).group(sameRail, ofTwo), "a b", cli.ExitOK, "POD NODE default/one c default/two c"},
		"both go, and would not agree":    {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 2, 1, 2).group(sameRail, ofTwo), "a b", cli.ExitNotPlaced, "a, b cannot go: 2 pods without another place"},
		"nothing in common":               {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 1, 1).group(nothing, ofTwo), "b", cli.ExitOK, "POD NODE default/two c"},
		"preferred":                       {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 1, 1).group(ratherRail, ofTwo), "b", cli.ExitOK, "POD NODE default/two c"},
		"preferred, and there is one":     {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 1, 1).node("d", "east", 1, 0).group(ratherRail, ofTwo), "b", cli.ExitOK, "POD NODE default/two d"},
		"another zone":                    {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "west", 1, 0).group(nothing, sameZone), "b", cli.ExitNotPlaced, "PodGroup default/gang: zone=east comes closest: 0 of 1 pod"},
		"the same zone":                   {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "west", 1, 0).node("d", "east", 1, 0).group(nothing, sameZone), "b", cli.ExitOK, "POD NODE default/two d"},
		"those that stay do not agree":    {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "west", 2, 0, 0).group(nothing, sameZone).runs("three", "c", "gpu-0"), "b", cli.ExitOK, "default/two c Not looked at of pods like default/two: what the pods of its PodGroup must have in common"},
		"no more values than one":         {newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0).node("c", "east", 1, 1).group(`{"maxDistinct": [{"attribute": "gpu.example.com/rail", "most": 1}]}`, ofTwo), "b", cli.ExitOK, "Not looked at of pods like default/two: maxDistinct of the PodGroup"},
	} {
		test.cluster.runs("one", "a", "gpu-0").runs("two", "b", "gpu-0")
		out, status := runStatus(test.cluster.String(), append([]string{"dray", "simulate", "drain", "-f", "-"}, strings.Fields(test.nodes)...)...)
		if flat := strings.Join(strings.Fields(out), " "); status != test.status || !strings.Contains(flat, test.want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", name, status, test.status, test.want, flat)
		}
	}
}

// A pod of a group of which others run gets what these have, whichever command says where.
func TestPodsJoinTheirGroup(t *testing.T) {
	onlyHere := newGroupCluster().node("a", "east", 1, 0).node("c", "west", 1, 1).group(sameRail, ofTwo).runs("one", "a", "gpu-0").waits("two").String()
	alsoThere := newGroupCluster().node("a", "east", 1, 0).node("c", "west", 1, 1).node("d", "west", 1, 0).group(sameRail, ofTwo).runs("one", "a", "gpu-0").waits("two").String()
	zone := newGroupCluster().node("a", "east", 1, 0).node("c", "west", 1, 1).group(nothing, sameZone).runs("one", "a", "gpu-0").waits("two").String()
	for _, test := range []struct {
		command string
		want    [3]int // the status for each cluster
	}{
		{"allocate", [3]int{cli.ExitNotPlaced, cli.ExitOK, cli.ExitNotPlaced}},
		{"simulate gang", [3]int{cli.ExitNotPlaced, cli.ExitOK, cli.ExitNotPlaced}},
		{"simulate when", [3]int{cli.ExitNotPlaced, cli.ExitOK, cli.ExitNotPlaced}},
		{"simulate plan --like c --most 3", [3]int{cli.ExitNotPlaced, cli.ExitOK, cli.ExitNotPlaced}},
		{"simulate plan --like a", [3]int{cli.ExitOK, cli.ExitOK, cli.ExitOK}},
		{"simulate repack --for podgroup/gang", [3]int{cli.ExitNotPlaced, cli.ExitOK, cli.ExitNotPlaced}},
	} {
		for i, manifests := range []string{onlyHere, alsoThere, zone} {
			out, status := runStatus(manifests, append(append([]string{"dray"}, strings.Fields(test.command)...), "-f", "-")...)
			if status != test.want[i] || strings.Contains(out, "Not looked at") {
				t.Errorf("%s, cluster %d: status %d, want %d\n%s", test.command, i, status, test.want[i], out)
			}
		}
	}
}

// Where pods of a group are placed one by one, it is said that what they must have in common is not looked at.
func TestGroupsThatAreNotLookedAt(t *testing.T) {
	const said = "what it must have in common with the other pods of its PodGroup"
	cluster := func(extension string) string {
		c := newGroupCluster().node("a", "east", 1, 0).node("b", "east", 1, 0, 1).group(extension, ofTwo).runs("one", "a", "gpu-0").waits("two").waits("three")
		c.WriteString("---\n{apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {nodeSelector: {zone: east}, priority: 7, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}}\n")
		return c.String()
	}
	for _, command := range []string{"fits", "what-if --add b=1", "victims two --any-priority", "victims alone --alone"} {
		for _, extension := range []string{sameRail, nothing} {
			out, status := runStatus(cluster(extension), append(append([]string{"dray", "simulate"}, strings.Fields(command)...), "-f", "-")...)
			want := extension == sameRail && !strings.Contains(command, "alone")
			if flat := strings.Join(strings.Fields(out), " "); status == cli.ExitError || strings.Contains(flat, said) != want {
				t.Errorf("%s: status %d, says so of groups: %t, want %t\n%s", command, status, !want, want, out)
			}
		}
	}
}

// Pods of a group that must have something in common stay where they are: one of them elsewhere would have something else.
func TestGroupsStay(t *testing.T) {
	for extension, want := range map[string]int{sameRail: cli.ExitNotPlaced, ratherRail: cli.ExitOK, nothing: cli.ExitOK} {
		c := newGroupCluster().node("a", "east", 1, 0).node("b", "west", 1, 1).group(extension, ofTwo).runs("one", "a", "gpu-0")
		c.WriteString("---\n{apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {nodeSelector: {zone: east}, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}}\n")
		if out, status := runStatus(c.String(), "dray", "simulate", "repack", "--for", "alone", "-f", "-"); status != want {
			t.Errorf("%s: status %d, want %d\n%s", extension, status, want, out)
		}
	}
}

// A group of which pods run in two zones is left out, unless it is what is asked about.
func TestGroupsThatCannotBeAskedAbout(t *testing.T) {
	const why = "PodGroup default/gang: spec.schedulingConstraints.topology[0].key: pods of the group run on nodes with zone=east and zone=west"
	c := newGroupCluster().node("a", "east", 9, 0, 1).node("b", "west", 9, 0, 1).group(nothing, sameZone).runs("one", "a", "gpu-0").runs("two", "b", "gpu-0").waits("three")
	c.WriteString("---\n{apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}}\n")
	for command, want := range map[string]struct {
		status int
		text   string
	}{
		"when":                       {cli.ExitOK, "warning: left out: " + why},
		"plan":                       {cli.ExitOK, "warning: left out: " + why},
		"when alone":                 {cli.ExitOK, "default/alone"},
		"when podgroup/gang":         {cli.ExitError, "error: " + why},
		"repack --for podgroup/gang": {cli.ExitError, "error: --for: " + why},
	} {
		out, status := runStatus(c.String(), append(append([]string{"dray", "simulate"}, strings.Fields(command)...), "-f", "-")...)
		if flat := strings.Join(strings.Fields(out), " "); status != want.status || !strings.Contains(flat, want.text) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", command, status, want.status, want.text, out)
		}
	}
}

// What a group has that runs is what it has now. That its pods may end is said.
func TestWhenPodsOfTheGroupEnd(t *testing.T) {
	const said = "that pods of its PodGroup end, which run now"
	for ends, want := range map[string]bool{"one 1h\n": true, "": false} {
		path := filepath.Join(t.TempDir(), "ends")
		if err := os.WriteFile(path, []byte(ends), 0o600); err != nil {
			t.Fatal(err)
		}
		c := newGroupCluster().node("a", "east", 1, 0).node("c", "west", 1, 1).group(sameRail, ofTwo).runs("one", "a", "gpu-0").waits("two")
		out, _ := runStatus(c.String(), "dray", "simulate", "when", "--ends", path, "-f", "-")
		if flat := strings.Join(strings.Fields(out), " "); strings.Contains(flat, said) != want {
			t.Errorf("ends %q: said %t, want %t\n%s", ends, !want, want, out)
		}
	}
}
