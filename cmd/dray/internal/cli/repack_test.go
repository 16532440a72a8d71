// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// owned is the owner of pods that would be made again.
const owned = ", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: r, controller: true}]"

// twoNodes is node a, of which two pods have all GPUs, and node b, which has two GPUs that are free. A pod waits that wants three.
var twoNodes = nodeWithGPUs + "---\n" + strings.NewReplacer("{name: a}", "{name: b}", "{name: a-gpus}", "{name: b-gpus}", "nodeName: a", "nodeName: b", "{name: a, gen", "{name: b, gen",
	", {name: gpu-2}, {name: gpu-3}", "").Replace(nodeWithGPUs[strings.Index(nodeWithGPUs, "apiVersion: v1\nkind: Node"):]) +
	holding("left", 0, owned, "  priority: 5\n") + holding("right", 2, owned, "  priority: 5\n") + waitsFor("wants", 2, "  priority: 5\n") + waitsFor("large", 4, "  priority: 5\n")

// Pods move so that another one fits, as far as priorities, budgets and their own annotations allow.
func TestSimulateRepack(t *testing.T) {
	const budget = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: default}\nspec: {selector: {matchLabels: {app: web}}, maxUnavailable: MOST}\n"
	for _, test := range []struct {
		name     string
		old, new string
		more     string
		flags    string
		status   int
		want     string
	}{
		{"as it is", "", "", "", "--for wants", cli.ExitOK, "wants fits as it is"},
		{"no items", "", "", "", "--for wants -o jsonpath={.items}", cli.ExitOK, "[]"},
		{"too large", "", "", "", "--for large", cli.ExitNotPlaced, "large does not fit, whichever pods move"},
		{"one move", "default/wants", "", waitsFor("three", 3, "  priority: 5\n"), "--for three", cli.ExitNotPlaced, "three does not fit, whichever pods move"},
		{"cheaper", "{name: right, namespace: default, uid: u", `{name: right, namespace: default, uid: u, annotations: {dray-project.github.io/move-cost: "0.5"}`, waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitOK, "default/right a b gpu.example.com/b/gpu-0,gpu.example.com/b/gpu-1"},
		{"a wrong cost", "{name: right, namespace: default, uid: u", `{name: right, namespace: default, uid: u, annotations: {dray-project.github.io/move-cost: "-1"}`, waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitOK, "default/left a b"},
		{"it says so", "{name: right, namespace: default, uid: u", `{name: right, namespace: default, uid: u, annotations: {dray-project.github.io/move-cost: low}`, waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitOK, `warning: it stays: pod default/right: metadata.annotations[dray-project.github.io/move-cost]: "low": want a number`},
		{"cost", "", "", waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitOK, "pair fits after 1 move, which costs 1, and nothing less will do"},
		{"document", "", "", waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair -o jsonpath={.kind},{.possible},{.exact},{.cost},{.bound},{.room},{.items[0].to},{.places[0].node}", cli.ExitOK, "SimulatedRepack,true,true,1,1,0,b,a"},
		{"lower priority", "", "", waitsFor("pair", 2, "  priority: 4\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitNotPlaced, "pair does not fit, whichever pods move"},
		{"any priority", "", "", waitsFor("pair", 2, "  priority: 4\n  nodeSelector: {only: a}\n"), "--for pair --any-priority", cli.ExitOK, "pair fits after 1 move"},
		{"a budget of none", "", "", budget + waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitNotPlaced, "pair does not fit"},
		{"a budget of an older version", "policy/v1", "policy/v1beta1", budget + waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitNotPlaced, "pair does not fit"},
		{"a budget of one", "MOST", "1", budget + waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair", cli.ExitOK, "pair fits after 1 move"},
		{"nobody makes them again", "ownerReferences", "finalizers: [], unownedReferences", waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n"), "--for pair --validate=ignore", cli.ExitNotPlaced, "pair does not fit"},
		{"no subject", "", "", "", "", cli.ExitError, "want either --for, with a pod or podgroup/NAME, or --goal"},
		{"two subjects", "", "", "", "--for pair --goal nodes", cli.ExitError, "want either --for"},
		{"another goal", "", "", "", "--goal pods", cli.ExitError, `--goal "pods": want nodes or devices`},
		{"another subject", "", "", "", "--for nobody", cli.ExitError, "--for: Pod default/nobody does not wait for devices"},
	} {
		input := strings.Replace(twoNodes, "metadata: {name: a}", "metadata: {name: a, labels: {only: a}}", 1) + test.more
		if test.old != "" {
			input = strings.ReplaceAll(input, test.old, test.new)
		}
		input = strings.ReplaceAll(input, "MOST", "0")
		out, status := runStatus(input, append([]string{"dray", "simulate", "repack", "-f", "-"}, strings.Fields(test.flags)...)...)
		if flat := strings.Join(strings.Fields(out), " "); status != test.status || !strings.Contains(flat, test.want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", test.name, status, test.status, test.want, out)
		}
	}
}

// The script evicts the pods, through the API that looks at budgets, and can be run by a shell.
func TestSimulateRepackScript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evict.sh")
	input := strings.Replace(twoNodes, "metadata: {name: a}", "metadata: {name: a, labels: {only: a}}", 1) + waitsFor("pair", 2, "  priority: 5\n  nodeSelector: {only: a}\n")
	if out, status := runStatus(input, "dray", "simulate", "repack", "--for", "pair", "--script", path, "-f", "-"); status != cli.ExitOK {
		t.Fatalf("status %d:\n%s", status, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#!/bin/sh\n", `so that "pair" fits`, "/eviction\"", "evict default left 'Its successor goes to b'\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// onNodeB is what holding returns, for a pod on node b.
func onNodeB(manifest string) string {
	return strings.NewReplacer("pool: a", "pool: b", "nodeName: a", "nodeName: b").Replace(manifest)
}

// Pods move so that nodes are empty, or whole devices free, as far as priorities, budgets and costs allow.
func TestSimulateRepackGoal(t *testing.T) {
	// A pod has two of the four GPUs of node a, another one both of node b.
	const budget = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: default}\nspec: {selector: {matchLabels: {app: web}}, maxUnavailable: 0}\n"
	daemon := strings.Replace(owned, "kind: ReplicaSet", "kind: DaemonSet", 1)
	both := strings.Replace(twoNodes, holding("right", 2, owned, "  priority: 5\n"), onNodeB(holding("right", 0, owned, "")), 1)
	both = strings.ReplaceAll(both, "  priority: 5\n", "")
	for _, test := range []struct {
		name     string
		old, new string
		flags    string
		status   int
		want     string
	}{
		{"a node", "", "", "--goal nodes", cli.ExitOK, "default/right b a gpu.example.com/a/gpu-2,gpu.example.com/a/gpu-3"},
		{"how many", "", "", "--goal nodes", cli.ExitOK, "0 nodes free before, 1 after 1 move, which costs 1; no moves leave more free, or as many for less. Freed: b"},
		{"a document", "", "", "--goal nodes -o jsonpath={.kind},{.goal},{.free.before},{.free.after},{.free.most},{.free.freed[0]},{.exact},{.bound},{.items[0].to}", cli.ExitOK, "SimulatedRepack,nodes,0,1,1,b,true,1,a"},
		{"whole devices that are held anyway", "", "", "--goal devices", cli.ExitNotPlaced, "2 whole devices free; no moves leave more free"},
		{"priority", "resourceClaimName: right-gpus}]\n", "resourceClaimName: right-gpus}]\n  priority: 1\n", "--goal nodes", cli.ExitNotPlaced, "0 nodes free; no moves leave more free"},
		{"any priority", "resourceClaimName: right-gpus}]\n", "resourceClaimName: right-gpus}]\n  priority: 1\n", "--goal nodes --any-priority", cli.ExitOK, "Freed: b"},
		{"a budget", "---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n", budget + "---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n", "--goal nodes", cli.ExitNotPlaced, "0 nodes free; no moves leave more free"},
		{"a pod that stays", "{name: right, namespace: default, uid: u", `{name: right, namespace: default, uid: u, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}`, "--goal nodes", cli.ExitNotPlaced, "0 nodes free"},
		{"a pod of a DaemonSet", "{name: right, namespace: default, uid: u" + owned, "{name: right, namespace: default, uid: u" + daemon, "--goal nodes", cli.ExitNotPlaced, "1 node free; no moves leave more free"},
	} {
		input := both
		if test.old != "" {
			if input = strings.Replace(both, test.old, test.new, 1); input == both {
				t.Fatalf("%s: no %q in\n%s", test.name, test.old, both)
			}
		}
		out, status := runStatus(input, append([]string{"dray", "simulate", "repack", "-f", "-"}, strings.Fields(test.flags)...)...)
		if flat := strings.Join(strings.Fields(out), " "); status != test.status || !strings.Contains(flat, test.want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", test.name, status, test.status, test.want, out)
		}
	}
	path := filepath.Join(t.TempDir(), "evict.sh")
	if out, status := runStatus(both, "dray", "simulate", "repack", "--goal", "nodes", "--script", path, "-f", "-"); status != cli.ExitOK {
		t.Fatalf("status %d:\n%s", status, out)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "so that more nodes are free. After each") || !strings.Contains(string(text), "evict default right 'Its successor goes to a'\n") {
		t.Errorf("%v\n%s", err, text)
	}
}
