// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// forPatch has three GPUs of two roots, of which one is tainted.
const forPatch = `
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: a}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: d0, attributes: {model: {string: A100}, root: {string: r0}}}
  - {name: d1, attributes: {model: {string: A100}, root: {string: r1}}}
  - {name: d2, attributes: {model: {string: H100}, root: {string: r1}}, taints: [{key: sick, value: fan, effect: NoSchedule}]}
---
`

// outputOf is standard output, of a command that reads this.
func outputOf(stdin string, arguments ...string) (string, int) {
	var out bytes.Buffer
	status := cli.Main(context.Background(), arguments, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: io.Discard})
	return out.String(), status
}

// A patch is the claim, or its template, with the change that gives up least, and can be allocated.
func TestExplainPatch(t *testing.T) {
	for name, test := range map[string]struct{ claim, want string }{
		"class": {
			`{requests: [{name: r, exactly: {deviceClassName: gpus}}]}`,
			"request r: deviceClassName gpu instead of gpus",
		},
		"taint": {
			`{requests: [{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "H100"'}}]}}]}`,
			"request r: the taint sick=fan:NoSchedule is tolerated",
		},
		"count": {
			`{requests: [{name: r, exactly: {deviceClassName: gpu, count: 5}}]}`,
			"request r: count 2 instead of 5",
		},
		"all": {
			`{requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}]}`,
			"request r: the taint sick=fan:NoSchedule is tolerated",
		},
		"constraint": {
			`{requests: [{name: r, exactly: {deviceClassName: gpu}}, {name: s, exactly: {deviceClassName: gpu}}], constraints: [{matchAttribute: gpu.example.com/root}, {matchAttribute: gpu.example.com/model}]}`,
			"without constraints[0]: matchAttribute gpu.example.com/root",
		},
		"selector": {
			`{requests: [{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'true'}}, {cel: {expression: 'device.attributes["gpu.example.com"].model == "B200"'}}]}}]}`,
			"request r: without selectors[1]",
		},
		"alternative": {
			`{requests: [{name: r, firstAvailable: [{name: large, deviceClassName: gpu, count: 7}, {name: larger, deviceClassName: gpu, count: 9}]}]}`,
			"request r/large: count 2 instead of 7",
		},
	} {
		claim := forPatch + "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, namespace: ml, uid: u, labels: {team: x}}, spec: {devices: " + test.claim + "}}\n"
		patch, status := outputOf(claim, "dray", "explain", "claim/c", "-n", "ml", "--patch", "-f", "-")
		first, manifest, _ := strings.Cut(patch, "\n")
		if want := "# ResourceClaim ml/c: " + test.want + ": then it can be placed on node a"; first != want || status != cli.ExitOK {
			t.Errorf("%s: status %d, got\n%s\nwant %s", name, status, patch, want)
			continue
		}
		if strings.Contains(manifest, "uid") || strings.Contains(manifest, "status") || !strings.Contains(manifest, "team: x") {
			t.Errorf("%s: the manifest is not what people write:\n%s", name, manifest)
		}
		if out, status := runStatus(forPatch+manifest, "dray", "explain", "claim/c", "-n", "ml", "-f", "-"); status != cli.ExitOK {
			t.Errorf("%s: the changed claim is not allocated, status %d:\n%s", name, status, out)
		}
	}
}

// Pods that come before are placed first. A template is changed instead of the claims made from it. If no change helps, the output says so.
func TestExplainPatchOfPods(t *testing.T) {
	atRepository(t)
	patch, status := outputOf("", "dray", "explain", "pretrain-0", "-n", "training", "--patch", "-f", "examples/fleet-200")
	for _, text := range []string{"# Pod training/pretrain-0: request gpu: count 3 instead of 4: then it can be placed on node h100-", "kind: ResourceClaimTemplate\n", "  name: pretrain\n", "count: 3\n", "matchAttribute: gpu.example.com/numa"} {
		if status != cli.ExitOK || !strings.Contains(patch, text) {
			t.Errorf("status %d, want %q in\n%s", status, text, patch)
		}
	}
	if out, status := runStatus("", "dray", "explain", "-A", "--patch", "-f", "examples/fleet-200"); status != cli.ExitOK || strings.Count(out, "# Pod ") != 1 || strings.Count(out, "can be placed as it is") != 17 {
		t.Errorf("status %d:\n%s", status, out)
	}
	nothing := forPatch + "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 3}}, {name: s, exactly: {deviceClassName: gpu, count: 3}}]}}}\n"
	if out, status := runStatus(nothing, "dray", "explain", "claim/c", "--patch", "-f", "-"); status != cli.ExitNotPlaced || !strings.Contains(out, "ResourceClaim default/c: no small change of a claim helps") {
		t.Errorf("status %d:\n%s", status, out)
	}
	for arguments, want := range map[string]string{
		"claim/c --patch -o json": "--patch writes manifests: it goes without --output",
		"podgroup/g --patch":      "--patch is about pods and claims",
	} {
		if out, status := runStatus(nothing, append([]string{"dray", "explain", "-f", "-"}, strings.Fields(arguments)...)...); status != cli.ExitError || !strings.Contains(out, want) {
			t.Errorf("%s: status %d:\n%s", arguments, status, out)
		}
	}
}

// Without a command, dray says what there is and what can be asked, or helps if there is nothing.
func TestOverview(t *testing.T) {
	atRepository(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // which pods have
	for _, test := range []struct {
		name, arguments string
		want, without   []string
	}{
		{"kubectl-dray", "-f examples/fleet-200", []string{
			"These manifests have 200 nodes and 1640 devices of 2 drivers; 18 pods and claims wait for devices.",
			"kubectl dray explain -A -f examples/fleet-200 ", "1640 devices: 876 held, 673 free, 91 stranded: cordoned (13), alignment (78): kubectl dray usage -f examples/fleet-200 ", "\"kubectl dray --help\" lists all commands.",
		}, []string{"simulate gang", "No driver"}},
		{"dray", "-f examples/gang-halves", []string{"1 node and 3 devices of 1 driver; 2 pods and claims wait", "dray simulate gang -f examples/gang-halves"}, []string{"No driver"}},
		{"dray", "-f examples/single-gpu/workload.yaml", []string{"0 nodes and 0 devices of 0 drivers", "No driver publishes devices"}, []string{"dray devices", "dray usage"}},
		{"dray", "-f examples/single-gpu/cluster.yaml", []string{"; nothing waits for devices."}, []string{"explain -A"}},
		{"dray", "", []string{"Usage:", "Available Commands:", "No cluster answers (there is none in a kubeconfig): give one with --context or --kubeconfig, or manifests with -f."}, []string{"This cluster"}},
		{"dray", "--server http://127.0.0.1:1", []string{"Usage:", "No cluster answers ("}, []string{"This cluster"}},
	} {
		out, status := runStatus("", append([]string{test.name}, strings.Fields(test.arguments)...)...)
		unfolded := strings.Join(strings.Fields(out), " ")
		for _, text := range test.want {
			if status != cli.ExitOK || !strings.Contains(unfolded, text) {
				t.Errorf("%s %s: status %d, want %q in\n%s", test.name, test.arguments, status, text, out)
			}
		}
		for _, text := range test.without {
			if strings.Contains(out, text) {
				t.Errorf("%s %s: %q is in\n%s", test.name, test.arguments, text, out)
			}
		}
	}
	if out, status := runStatus("", "dray", "explian"); status != cli.ExitError || !strings.Contains(out, "explain") {
		t.Errorf("an unknown command: status %d\n%s", status, out)
	}
	if out, status := runStatus(oneNode, "dray", "-f", "-"); status != cli.ExitOK || !strings.Contains(out, "1 pod or claim waits") || !strings.Contains(out, "explain -A") {
		t.Errorf("status %d, want that one pod waits, and how to ask why, in\n%s", status, out)
	}
}
