// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// gangManifest is a node with GPUs that can be had whole or in halves, and a group of pods that each want a whole one or else a half. Those of
// them that share have one half in common, too.
func gangManifest(gpus, pods, least int, shared bool) string {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 8, pods: 10}}\n---\n" +
		"apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n---\n" +
		"apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: counters}\nspec:\n  driver: gpu.example.com\n  nodeName: a\n" +
		"  pool: {name: a, generation: 1, resourceSliceCount: 2}\n  sharedCounters:\n")
	for g := range gpus {
		fmt.Fprintf(&text, "  - {name: gpu-%d, counters: {halves: {value: \"2\"}}}\n", g)
	}
	text.WriteString("---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: devices}\nspec:\n  driver: gpu.example.com\n  nodeName: a\n" +
		"  pool: {name: a, generation: 1, resourceSliceCount: 2}\n  devices:\n")
	for g := range gpus {
		for i, draws := range []int{2, 1, 1} {
			fmt.Fprintf(&text, "  - {name: gpu-%d-%d, attributes: {halves: {int: %d}}, consumesCounters: [{counterSet: gpu-%d, counters: {halves: {value: \"%d\"}}}]}\n", g, i, draws, g, draws)
		}
	}
	of := func(halves int) string {
		return fmt.Sprintf("deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].halves == %d'}}]", halves)
	}
	if shared {
		fmt.Fprintf(&text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: common}\nspec: {devices: {requests: [{name: half, exactly: {%s}}]}}\n", of(1))
	}
	fmt.Fprintf(&text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: part}\nspec: {spec: {devices: {requests: [{name: part, firstAvailable: [{name: whole, %s}, {name: half, %s}]}]}}}\n", of(2), of(1))
	fmt.Fprintf(&text, "---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: gang}\nspec: {schedulingPolicy: {gang: {minCount: %d}}}\n", least)
	for p := range pods {
		claims := "{name: part, resourceClaimTemplateName: part}"
		if shared {
			claims += ", {name: common, resourceClaimName: common}"
		}
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod-%d}\nspec:\n  schedulingGroup: {podGroupName: gang}\n  containers: [{name: main, image: x, resources: {requests: {cpu: 2}}}]\n  resourceClaims: [%s]\n", p, claims)
	}
	return text.String()
}

// A group whose devices several nodes can reach may fit in a way that was not looked for: gang and plan say that it is not known.
func TestGangWithoutProof(t *testing.T) {
	manifest := strings.ReplaceAll(gangManifest(1, 3, 3, false), "  nodeName: a\n", "  allNodes: true\n") +
		"---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\nstatus: {allocatable: {cpu: 8, pods: 10}}\n"
	for command, want := range map[string]string{
		"simulate gang -o jsonpath={.items[0].exact}": "", "simulate plan": "a     0      0       0         3\n", "simulate repack --for podgroup/gang": "no way was found",
	} {
		out, status := runStatus(manifest, append(append([]string{"dray"}, strings.Fields(command)...), "-f", "-")...)
		if status != cli.ExitUndecided || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", command, status, cli.ExitUndecided, want, out)
		}
	}
}

// The pods of a group are placed together, or none of them is.
func TestGangs(t *testing.T) {
	for _, test := range []struct {
		name             string
		gpus, pods, need int
		shared           bool
		command          string
		status           int
		want             []string
	}{
		{"halves", 1, 2, 2, false, "allocate -f -", cli.ExitOK, []string{"part/half", "2 of 2 pods placed."}},
		{"all or nothing", 1, 3, 3, false, "allocate -f -", cli.ExitNotPlaced, []string{"PodGroup default/gang: 2 of 3 pods fit together, and it needs 3", "0 of 3 pods placed."}},
		{"as many as there are", 1, 3, 2, false, "allocate -f -", cli.ExitNotPlaced, []string{"2 of 3 pods placed."}},
		{"with a claim in common", 2, 3, 3, true, "allocate -f -", cli.ExitOK, []string{"common: half", "3 of 3 pods placed."}},
		{"as much CPU as the node has", 4, 5, 5, false, "simulate gang -f - -o jsonpath={.items[0]['fit','verdict','exact']}", cli.ExitNotPlaced, []string{"4 not satisfiable true"}},
		{"the first keeps the whole", 2, 3, 3, false, "allocate -f -", cli.ExitOK, []string{"default/pod-0  a     part/whole", "default/pod-1  a     part/half", "default/pod-2  a     part/half"}},
		{"one by one", 1, 2, 2, false, "simulate gang --one-by-one gang -f - -o jsonpath={.items[0]['fit','verdict']}", cli.ExitNotPlaced, []string{"1 not satisfiable"}},
		{"why", 1, 3, 3, false, "explain podgroup/gang -f -", cli.ExitNotPlaced, []string{
			"2 of 3 pods fit together, and it needs 3; default/pod-2 competes with default/pod-0 for device gpu.example.com/a/gpu-0-1 on node a, with default/pod-1 for device",
			"; the group starts with a minCount lower by 1, or with one more node like a.", "With 2 pods of the group placed, the next one:", "in use: 1 by default/pod-0",
		}},
		{"why, for a program", 1, 3, 3, false, "explain podgroup/gang -f - -o jsonpath={.reason}", cli.ExitNotPlaced, []string{"2 of 3 pods fit together, and it needs 3; default/pod-2 competes with"}},
		{"why, in numbers", 1, 3, 3, false, "simulate gang -f - -o jsonpath={.items[0].why}", cli.ExitNotPlaced, []string{"the group starts with a minCount lower by 1, or with one more node like a"}},
		{"no reason for a yes", 1, 2, 2, false, "simulate gang -f - -o jsonpath={.items[0].why}", cli.ExitOK, []string{""}},
		{"why of undecided", 1, 3, 3, false, "explain podgroup/gang -f - --budget 1", cli.ExitUndecided, []string{"not decided: more may fit, raise --budget to search on"}},
		{"why not", 1, 2, 2, false, "explain podgroup/gang -f -", cli.ExitOK, []string{"one after the", "2 of 2 pods placed."}},
		{"a pod", 1, 2, 2, false, "explain pod-1 -f -", cli.ExitOK, []string{"together with the other pods of its PodGroup", "gpu-0-2"}},
		{"a pod that waits", 1, 3, 3, false, "explain pod-0 -f -", cli.ExitNotPlaced, []string{"2 of 3 pods fit together", "default/pod-2 competes with default/pod-0 for device", "or with one more node like a"}},
		{"all pods", 1, 2, 2, false, "explain -f -", cli.ExitOK, []string{"2"}},
		{"plan", 1, 2, 2, false, "simulate plan -f -", cli.ExitOK, []string{"a     0      2       0         0\n"}},
		{"plan for all or nothing", 1, 3, 3, false, "simulate plan --most 1 -f -", cli.ExitOK, []string{"a     1      3       0         0\n"}},
		{"plan without room", 1, 5, 5, false, "simulate plan --most 1 -f -", cli.ExitNotPlaced, []string{"a     0      0       5         0\n"}},
		{"plan for more than it needs", 1, 3, 2, false, "simulate plan -f -", cli.ExitOK, []string{"a     1      3       0         0\n"}},
		{"plan with any", 1, 2, 2, false, "simulate plan --any -f -", cli.ExitOK, []string{"NODES  PODS\n"}},
		{"no such group", 1, 2, 2, false, "explain podgroup/gong -f -", cli.ExitError, []string{"PodGroup default/gong has no pods that wait for devices: did you mean gang?"}},
	} {
		out, status := runStatus(gangManifest(test.gpus, test.pods, test.need, test.shared), append([]string{"dray"}, strings.Fields(test.command)...)...)
		if status != test.status {
			t.Errorf("%s: status %d, want %d:\n%s", test.name, status, test.status, out)
		}
		for _, want := range test.want {
			if unfolded := strings.Join(strings.Fields(out), " "); !strings.Contains(out, want) && !strings.Contains(unfolded, want) {
				t.Errorf("%s: no %q in\n%s", test.name, want, out)
			}
		}
	}
}

// A constraint across the claims of a pod does not include claims of other pods of its group. So the second pod, which needs what the first one
// takes first, may fit: it is not said that it does not.
func TestGangsWithConstraintsOfTheirPods(t *testing.T) {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 8, pods: 10}}\n---\n" +
		"apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n---\n" +
		"apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: a}\nspec:\n  driver: gpu.example.com\n  nodeName: a\n" +
		"  pool: {name: a, generation: 1, resourceSliceCount: 1}\n  devices:\n")
	for i := range 4 {
		fmt.Fprintf(&text, "  - {name: gpu-%d, attributes: {numa: {int: %d}}}\n", i, i%2)
	}
	for name, selectors := range map[string]string{"any": "", "local": ", selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].numa == 0'}}]"} {
		fmt.Fprintf(&text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: %s}\nspec:\n"+
			"  metadata: {annotations: {dray-project.github.io/extension: '{\"matchAcross\": [\"gpu.example.com/numa\"]}'}}\n"+
			"  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu%s}}]}}\n", name, selectors)
	}
	text.WriteString("---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: gang}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n")
	for p, template := range []string{"any", "local"} {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod-%d}\nspec:\n  schedulingGroup: {podGroupName: gang}\n"+
			"  containers: [{name: main, image: x}]\n  resourceClaims: [{name: first, resourceClaimTemplateName: %[2]s}, {name: second, resourceClaimTemplateName: %[2]s}]\n", p, template)
	}
	out, status := runStatus(text.String(), "dray", "simulate", "gang", "-f", "-", "-o", "jsonpath={.items[0]['fit','verdict','exact']}")
	if status != cli.ExitUndecided {
		t.Errorf("status %d, want %d:\n%s", status, cli.ExitUndecided, out)
	}
}

// Pods of a group that run count as started, and so do those that wait and need no devices. Finished ones do not.
func TestStartedPodsOfAGroup(t *testing.T) {
	const (
		inGroup = "spec: {nodeName: a, schedulingGroup: {podGroupName: gang}, containers: [{name: main, image: x}]}, status: {phase: %s}"
		alone   = "spec: {nodeName: a, containers: [{name: main, image: x}]}, status: {phase: Running}"
		waits   = "spec: {schedulingGroup: {podGroupName: gang}, containers: [{name: main, image: x}]}"
		asks    = "spec: {schedulingGroup: {podGroupName: gang}, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}"
	)
	running := fmt.Sprintf(inGroup, "Running")
	for name, test := range map[string]struct {
		namespace, pod string
		status         int
	}{
		"one runs":                   {"default", running, cli.ExitOK},
		"one has finished":           {"default", fmt.Sprintf(inGroup, "Succeeded"), cli.ExitNotPlaced},
		"one wants none":             {"default", waits, cli.ExitOK},
		"it is of another group":     {"default", strings.Replace(running, "gang", "other", 1), cli.ExitNotPlaced},
		"it is of another namespace": {"other", running, cli.ExitNotPlaced},
		"it is of no group":          {"default", alone, cli.ExitNotPlaced},
		"another one waits":          {"default", asks, cli.ExitOK},
	} {
		c := newGroupCluster().node("a", "east", 9, 0, 1).group(nothing, ofTwo).waits("one")
		fmt.Fprintf(c, "---\n{apiVersion: v1, kind: Pod, metadata: {name: two, uid: two, namespace: %s}, %s}\n", test.namespace, test.pod)
		if out, status := runStatus(c.String(), "dray", "allocate", "-f", "-"); status != test.status {
			t.Errorf("%s: status %d, want %d\n%s", name, status, test.status, out)
		}
	}
}

// The constraint of a PodGroup on the devices of its pods is read, and counts devices of running pods of the group.
func TestGangsWithConstraint(t *testing.T) {
	slice := func(node string, rails ...int) string {
		text := fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: {pods: 1}}}\n---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: %s}\nspec:\n  driver: gpu.example.com\n  nodeName: %s\n  pool: {name: %s, generation: 1, resourceSliceCount: 1}\n  devices:\n", node, node, node, node)
		for i, rail := range rails {
			text += fmt.Sprintf("  - {name: gpu-%d, attributes: {rail: {int: %d}}}\n", i, rail)
		}
		return text
	}
	pod := func(name, more string) string {
		return fmt.Sprintf("---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: %s}\nspec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}\n", name) + more +
			fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  schedulingGroup: {podGroupName: gang}\n  resourceClaims: [{name: gpu, resourceClaimName: %s}]\n  containers: [{name: main, image: x}]\n", name, name)
	}
	cluster := "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}\n" + slice("a", 0, 1) + slice("b", 1) + slice("c", 2, 0)
	runs := "status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: c, device: gpu-1}]}}, reservedFor: [{resource: pods, name: pod-2, uid: pod-2}]}\n"
	for _, test := range []struct {
		name, group, pods, command string
		status                     int
		want                       string
	}{
		{"match", `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, pod("pod-0", "") + pod("pod-1", ""), "explain podgroup/gang", cli.ExitOK, "2 of 2 pods fit together with devices of gpu.example.com/rail = 0"},
		{"three of one rail", `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, pod("pod-0", "") + pod("pod-1", "") + pod("pod-2", ""), "simulate gang -o jsonpath={.items[0]['fit','verdict','exact']}", cli.ExitNotPlaced, "2 not satisfiable true"},
		{"two rails", `{"maxDistinct": [{"attribute": "gpu.example.com/rail", "most": 2}]}`, pod("pod-0", "") + pod("pod-1", "") + pod("pod-2", ""), "simulate gang -o jsonpath={.items[0].domain}", cli.ExitOK, `["gpu.example.com/rail = 0 or 1"]`},
		{"one that runs", `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, pod("pod-1", "") + strings.Replace(pod("pod-2", runs), "metadata: {name: pod-2}\nspec:\n  scheduling", "metadata: {name: pod-2, uid: pod-2}\nspec:\n  nodeName: c\n  scheduling", 1), "explain podgroup/gang", cli.ExitOK, "1 of 1 pods fit together with devices of gpu.example.com/rail = 0"},
		{"wrong", `{"constraints": [{"matchAttribute": "rail"}]}`, pod("pod-0", ""), "allocate", cli.ExitError, `annotation dray-project.github.io/extension: constraints[0].matchAttribute: "rail": want domain/name`},
		{"no such request", `{"constraints": [{"matchAttribute": "a/b", "requests": ["nic"]}]}`, pod("pod-0", ""), "allocate", cli.ExitError, `constraints[0].requests[0]: no pod of the group has a request "nic"`},
	} {
		group := fmt.Sprintf("---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: gang, annotations: {dray-project.github.io/extension: '%s'}}\nspec: {schedulingPolicy: {gang: {minCount: %d}}}\n", test.group, strings.Count(test.pods, "kind: Pod"))
		out, status := runStatus(cluster+group+test.pods, append([]string{"dray"}, strings.Fields(test.command+" -f -")...)...)
		if unfolded := strings.Join(strings.Fields(out), " "); status != test.status || !strings.Contains(unfolded, test.want) {
			t.Errorf("%s: status %d, no %q in\n%s", test.name, status, test.want, out)
		}
	}
}

// With a topology constraint, all pods of a group go to nodes with one value of the label: where they fit one after the other, or else together,
// or else to the domain that comes closest.
func TestGangsInADomain(t *testing.T) {
	node := func(name, rack string, gpus int) string {
		text := fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}, status: {allocatable: {pods: 9}}}\n", name, rack)
		text += fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s-counters}, spec: {driver: gpu.example.com, nodeName: %s, pool: {name: %s, generation: 1, resourceSliceCount: 2}, sharedCounters: [", name, name, name)
		for g := range gpus {
			text += fmt.Sprintf("{name: gpu-%d, counters: {halves: {value: \"2\"}}}, ", g)
		}
		text += fmt.Sprintf("]}}\n---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: gpu.example.com, nodeName: %s, pool: {name: %s, generation: 1, resourceSliceCount: 2}, devices: [", name, name, name)
		for g := range gpus {
			for i, draws := range []int{2, 1, 1} {
				text += fmt.Sprintf("{name: gpu-%d-%d, attributes: {halves: {int: %d}}, consumesCounters: [{counterSet: gpu-%d, counters: {halves: {value: \"%d\"}}}]}, ", g, i, draws, g, draws)
			}
		}
		return text + "]}}\n"
	}
	pod := func(name string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s}, spec: {schedulingGroup: {podGroupName: gang}, resourceClaims: [{name: part, resourceClaimTemplateName: part}], containers: [{name: main, image: x}]}}\n", name, name)
	}
	of := func(halves int) string {
		return fmt.Sprintf("deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].halves == %d'}}]", halves)
	}
	objects := "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}\n" +
		fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: part}, spec: {spec: {devices: {requests: [{name: part, firstAvailable: [{name: whole, %s}, {name: half, %s}]}]}}}}\n", of(2), of(1))
	runs := func(node string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: runs-on-%s}, spec: {nodeName: %s, schedulingGroup: {podGroupName: gang}, containers: [{name: main, image: x}]}, status: {phase: Running}}\n", node, node)
	}
	const one, two, none = "rack: one", "rack: two", "other: x"
	racks := node("a", one, 1) + node("x", none, 8) + node("b", two, 1) + node("c", two, 1)
	const gangOf, basic = "gang: {minCount: %d}", "basic: {}"
	for _, test := range []struct {
		name, nodes, policy string
		pods                int
		more, command       string
		status              int
		want                []string
	}{
		{"planned in rack two", racks, gangOf, 3, "", "allocate", cli.ExitOK, []string{"default/pod-0 b part/whole b/gpu-0-0", "default/pod-1 c part/half c/gpu-0-1", "default/pod-2 c part/half c/gpu-0-2"}},
		{"one by one before planned", racks, gangOf, 2, "", "simulate gang -o jsonpath={.items[0]['topology','oneByOne']}", cli.ExitOK, []string{"rack=two true"}},
		{"one by one does not do", racks, gangOf, 3, "", "simulate gang --one-by-one -o jsonpath={.items[0]['topology','fit','verdict']}", cli.ExitNotPlaced, []string{"rack=two 2 not satisfiable"}},
		{"in no rack", racks, gangOf, 5, "", "explain podgroup/gang", cli.ExitNotPlaced, []string{"4 of 5 pods fit together on nodes with rack=two, and it needs 5; default/pod-4 competes with default/pod-0", "on node b", "with one more node like b"}},
		{"the proof is for all racks", racks, gangOf, 5, "", "simulate gang -o jsonpath={.items[0]['exact','verdict']}", cli.ExitNotPlaced, []string{"true not satisfiable"}},
		{"undecided in one", racks, gangOf, 3, "", "simulate gang --budget 1 -o jsonpath={.items[0].verdict}", cli.ExitUndecided, []string{"not decided"}},
		{"no rack", node("x", none, 8), gangOf, 2, "", "allocate", cli.ExitNotPlaced, []string{"0 of 2 pods fit together, and it needs 2; no node has the label rack"}},
		{"where one runs", racks, gangOf, 3, runs("a"), "simulate gang -o jsonpath={.items[0]['topology','needs','fit','verdict']}", cli.ExitOK, []string{"rack=one 2 2 satisfiable"}},
		{"where two run", racks, gangOf, 3, runs("a") + runs("b"), "allocate", cli.ExitError, []string{"pods of the group run on nodes with rack=one and rack=two"}},
		{"outside", racks, gangOf, 3, runs("x"), "allocate", cli.ExitError, []string{"pod runs-on-x of the group runs on node x, which lacks the label rack"}},
		{"on nodes of any rack", racks, gangOf, 5, "", "simulate plan --any", cli.ExitUndecided, []string{"0 pods without a place, 5 undecided"}},
		{"on nodes of rack two", racks, gangOf, 5, "", "simulate plan --like b -o jsonpath={.items[0]['nodes','placed']}", cli.ExitOK, []string{"3 5"}},
		{"on fewer together", racks, gangOf, 5, "", "simulate plan --like b --most 1 -o jsonpath={.items[0]['nodes','placed']}", cli.ExitOK, []string{"1 5"}},
		{"those that it does not need", racks, basic, 3, "", "simulate plan --like b", cli.ExitOK, []string{"what it must have in common with the pods that its PodGroup needs"}},
		{"no gang", racks, basic, 3, "", "allocate", cli.ExitNotPlaced, []string{"default/pod-0 b part/whole", "default/pod-1 c part/whole", "2 of 3 pods placed."}},
	} {
		policy := test.policy
		if policy == gangOf {
			policy = fmt.Sprintf(policy, test.pods)
		}
		group := fmt.Sprintf("---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: gang}, spec: {schedulingPolicy: {%s}, schedulingConstraints: {topology: [{key: rack}]}}}\n", policy)
		text := objects + test.nodes + group + test.more
		for i := range test.pods {
			text += pod(fmt.Sprint("pod-", i))
		}
		out, status := runStatus(text, append([]string{"dray"}, strings.Fields(test.command+" -f -")...)...)
		for _, want := range test.want {
			if unfolded := strings.Join(strings.Fields(out), " "); status != test.status || !strings.Contains(unfolded, want) {
				t.Errorf("%s: status %d, no %q in\n%s", test.name, status, want, out)
			}
		}
	}
}
