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

// eight is node b, which has eight GPUs and is no part of the cluster.
var eight = strings.NewReplacer("{name: a}", "{name: b}", "{name: a-gpus}", "{name: b-gpus}", "nodeName: a", "nodeName: b", "{name: a, gen", "{name: b, gen",
	"{name: gpu-3}", "{name: gpu-3}, {name: gpu-4}, {name: gpu-5}, {name: gpu-6}, {name: gpu-7}").Replace(nodeWithGPUs[strings.Index(nodeWithGPUs, "apiVersion: v1\nkind: Node"):])

// two is node c, which has two.
var two = strings.NewReplacer("{name: b", "{name: c", "nodeName: b", "nodeName: c",
	", {name: gpu-2}, {name: gpu-3}, {name: gpu-4}, {name: gpu-5}, {name: gpu-6}, {name: gpu-7}", "").Replace(eight)

// Nodes are bought at least cost, as a file says what they cost. Five pods want two GPUs each, and node a has four.
func TestSimulatePlanPrices(t *testing.T) {
	for _, test := range []struct {
		name, prices, flags string
		status              int
		want                string
	}{
		{"small", "types: [{name: small, like: a, price: 10}, {name: large, like: b, price: 25}]\nnodes: [b.yaml]", "", cli.ExitOK,
			"small 10 2 3 20 2 new nodes cost 20, and nothing less will do; 2 pods on the nodes there are"},
		{"one of two further nodes", "types: [{like: c, price: 10}]\nnodes: [b.yaml, c.yaml]", "", cli.ExitOK, "c 10 3 3 30"},
		{"large", "types: [{name: small, like: a, price: 10}, {name: large, like: b, price: 15}]\nnodes: [b.yaml]", "", cli.ExitOK,
			"large 15 1 3 15 1 new node costs 15, and nothing less will do"},
		{"free", "types: [{like: a, price: 0}]", "", cli.ExitOK, "a 0 2 3 0 2 new nodes cost 0"},
		{"limited by type", "types: [{name: small, like: a, price: 10, most: 1}, {name: large, like: b, price: 25}]\nnodes: [b.yaml]", "", cli.ExitOK, "large 25 1 3 25"},
		{"limited by label", "types: [{name: small, like: a, price: 10, labels: {zone: x}}, {name: large, like: b, price: 25}]\nnodes: [b.yaml]\nlimits: [{labels: {zone: x}, most: 0}]", "", cli.ExitOK, "large 25 1 3 25"},
		{"limited by name", "types: [{name: small, like: a, price: 10}, {name: large, like: b, price: 25}]\nnodes: [b.yaml]\nlimits: [{types: [small], most: 0}]", "", cli.ExitOK, "large 25 1 3 25"},
		{"limited by a flag", "types: [{like: a, price: 10}]", "--most 1", cli.ExitNotPlaced, "a 10 1 2 10 1 new node costs 10, and nothing less will do; 2 pods on the nodes there are no more nodes are permitted: 1 pod like"},
		{"document", "types: [{like: a, price: 10, most: 1}]", "-o jsonpath={.kind},{.cost},{.bound},{.exact},{.items[0].nodes[0].name},{.left[0].reason},{.existing[0].node}", cli.ExitNotPlaced,
			"SimulatedMix,10,10,true,a-new-0,Limited,a"},
		{"names", "types: [{like: a, price: 10}]", "-o name", cli.ExitOK, "a"},
		{"nothing fits", "types: [{name: large, like: b, price: 10}]\nnodes: [b.yaml]", "--selector app=large", cli.ExitOK, "0 new nodes cost 0, and nothing less will do"},
		{"no types", "types: []", "", cli.ExitError, "--prices: DIR/prices.yaml: there are no types"},
		{"two documents", "types: [{like: a, price: 1}]\n---\ntypes: [{like: a, price: 2}]", "", cli.ExitError, "DIR/prices.yaml: there is more than one document"},
		{"a comment as a document", "# prices\n---\ntypes: [{like: a, price: 0}]\n---\n", "", cli.ExitOK, "2 new nodes cost 0"},
		{"unknown field", "types: [{like: a, price: 10, cost: 5}]", "", cli.ExitError, `unknown field "cost"`},
		{"field twice", "types: [{like: a, price: 10, price: 5}]", "", cli.ExitError, `"price" already set`},
		{"no price", "types: [{like: a}]", "", cli.ExitError, "types[0]: price is missing"},
		{"price is text", "types: [{like: a, price: high}]", "", cli.ExitError, "DIR/prices.yaml: error unmarshaling JSON"},
		{"negative price", "types: [{like: a, price: -1}]", "", cli.ExitError, "type a: price -1: want 0 to 1e+09"},
		{"no node", "types: [{price: 1}]", "", cli.ExitError, "types[0]: like is missing"},
		{"another node", "types: [{like: x, price: 1}]", "", cli.ExitError, "type x: node x does not exist"},
		{"no name", "types: [{name: A B, like: a, price: 1}]", "", cli.ExitError, `types[0]: name "A B": a lowercase RFC 1123 subdomain`},
		{"name twice", "types: [{like: a, price: 1}, {like: a, price: 2}]", "", cli.ExitError, "types[1]: there is another type of the name a"},
		{"label", "types: [{like: a, price: 1, labels: {'a b': c}}]", "", cli.ExitError, "types[0]: labels: Invalid value"},
		{"negative most", "types: [{like: a, price: 1, most: -1}]", "", cli.ExitError, "types[0]: most: -1: want 0 or more"},
		{"limit on nothing", "types: [{like: a, price: 1}]\nlimits: [{most: 1}]", "", cli.ExitError, "limits[0]: want either types or labels"},
		{"limit on another", "types: [{like: a, price: 1}]\nlimits: [{types: [b], most: 1}]", "", cli.ExitError, "limits[0]: there is no type of the name b"},
		{"limit of nothing", "types: [{like: a, price: 1}]\nlimits: [{types: [a]}]", "", cli.ExitError, "limits[0]: most is missing"},
		{"negative limit", "types: [{like: a, price: 1}]\nlimits: [{types: [a], most: -2}]", "", cli.ExitError, "limits[0]: most: -2: want 0 or more"},
		{"further nodes", "types: [{like: a, price: 1}]\nnodes: [none.yaml]", "", cli.ExitError, "--prices: nodes: "},
		{"like", "types: [{like: a, price: 1}]", "--like a", cli.ExitError, "leave out --like and --any"},
		{"any", "types: [{like: a, price: 1}]", "--any", cli.ExitError, "leave out --like and --any"},
	} {
		folder := t.TempDir()
		for name, text := range map[string]string{"prices.yaml": test.prices, "b.yaml": eight, "c.yaml": two} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		arguments := append([]string{"dray", "simulate", "plan", "--prices", filepath.Join(folder, "prices.yaml"), "-f", "-"}, strings.Fields(test.flags)...)
		out, status := runStatus(simulated, arguments...)
		flat := strings.ReplaceAll(strings.Join(strings.Fields(out), " "), folder, "DIR")
		if status != test.status || !strings.Contains(flat, test.want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", test.name, status, test.status, test.want, flat)
		}
	}
	if out, status := runStatus(simulated, "dray", "simulate", "plan", "--prices", "missing.yaml", "-f", "-"); status != cli.ExitError || !strings.Contains(out, "missing.yaml") {
		t.Errorf("no file: status %d\n%s", status, out)
	}
}

// The nodes that cost least are found for pods one by one. Whether the groups of these pods start there is looked at afterwards.
func TestPricesAndGroups(t *testing.T) {
	node := func(name string, rails ...int) string {
		text := fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %[1]s}, status: {allocatable: {pods: 1}}}\n---\n"+
			"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s}, spec: {driver: gpu.example.com, nodeName: %[1]s, pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}, devices: [", name)
		for _, rail := range rails {
			text += fmt.Sprintf("{name: gpu-%[1]d, attributes: {rail: {int: %[1]d}}}, ", rail)
		}
		return text + "]}}\n"
	}
	pods := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: pod-%d}, spec: {schedulingGroup: {podGroupName: gang}, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}}\n", i)
		}
		return text
	}
	group := func(extension string, least int) string {
		return fmt.Sprintf("---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: gang, annotations: {dray-project.github.io/extension: '%s'}}, spec: {schedulingPolicy: {gang: {minCount: %d}}}}\n", extension, least)
	}
	const (
		match  = `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`
		common = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}\n---\n" +
			"{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: gpu}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}}\n"
		types = "types: [{like: a, price: 10, most: 1}]"
		none  = "the group starts"
		// single is a pod that is in no group, with a node to itself.
		single = "---\n{apiVersion: v1, kind: Node, metadata: {name: c, labels: {for: single}}}\n---\n" +
			"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: c}, spec: {driver: gpu.example.com, nodeName: c, pool: {name: c, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0}]}}\n---\n" +
			"{apiVersion: v1, kind: Pod, metadata: {name: single}, spec: {nodeSelector: {for: single}, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: x}]}}\n"
	)
	for name, test := range map[string]struct {
		cluster, flags string
		status         int
		want           string
	}{
		"of one rail":       {node("a", 0, 1) + node("b", 1) + group(match, 2) + pods(2), "", cli.ExitOK, none},
		"beside a pod":      {node("a", 0, 1) + node("b", 1) + single + group(match, 2) + pods(2), "", cli.ExitOK, none},
		"on a new node":     {node("a", 0, 1) + group(match, 2) + pods(2), "", cli.ExitOK, none},
		"of two rails":      {node("a", 0) + node("b", 1) + group(match, 2) + pods(2), "", cli.ExitUndecided, "PodGroup default/gang does not start: its pods have places, but it is not known whether they have any with what they must have in common"},
		"with a new node":   {node("a", 0) + node("b", 1) + group(match, 3) + pods(3), "", cli.ExitUndecided, "PodGroup default/gang does not start"},
		"asking for less":   {node("a", 0) + node("b", 1) + group("{}", 2) + pods(2), "", cli.ExitOK, none},
		"too few places":    {node("a", 0) + node("b", 1) + group("{}", 4) + pods(4), "", cli.ExitNotPlaced, "PodGroup default/gang does not start: 3 of the 4 pods that it needs have a place"},
		"as many as needed": {node("a", 0) + node("b", 1) + group("{}", 3) + pods(4), "", cli.ExitNotPlaced, none},
		"document":          {node("a", 0) + node("b", 1) + group(match, 2) + pods(2), "-o jsonpath={.exact},{.notStarted[0].group}", cli.ExitUndecided, "false,default/gang"},
	} {
		path := filepath.Join(t.TempDir(), "prices.yaml")
		if err := os.WriteFile(path, []byte(types), 0o600); err != nil {
			t.Fatal(err)
		}
		out, status := runStatus(common+test.cluster, append([]string{"dray", "simulate", "plan", "--prices", path, "-f", "-"}, strings.Fields(test.flags)...)...)
		flat := strings.Join(strings.Fields(out), " ")
		if status != test.status || test.want != none && !strings.Contains(flat, test.want) || test.want == none && strings.Contains(flat, "does not start") {
			t.Errorf("%s: status %d, want %d and %q in\n%s", name, status, test.status, test.want, flat)
		}
	}
}
