// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// Files in testdata/mistakes and testdata/workloads hold manifests, read together with
// testdata/cluster.yaml, and what dray says of them.
func TestCluster(t *testing.T) {
	for _, folder := range []string{"testdata/mistakes", "testdata/workloads"} {
		datadriven.Walk(t, folder, func(t *testing.T, path string) {
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				arguments := []string{"dray", d.Cmd}
				for _, argument := range d.CmdArgs {
					arguments = append(arguments, argument.String())
				}
				output := run(d.Input, append(arguments, "-f", "testdata/cluster.yaml", "-f", "-")...)
				return output
			})
		})
	}
}

// Objects that cannot be translated are named with the field. The message is shorter than the input.
func TestConvertSaysWhatIsRefused(t *testing.T) {
	var pool strings.Builder
	pool.WriteString("apiVersion: devmgmtproto.k8s.io/v1alpha1\nkind: DevicePool\nmetadata: {name: gpus}\nspec:\n  driver: gpu.example.com\n  devices:\n")
	for i := range 3000 {
		fmt.Fprintf(&pool, "  - {name: g%d, attributes: [{name: pcie-root, stringValue: \"%d\"}]}\n", i, i)
	}
	fmt.Fprintf(&pool, "---\napiVersion: devmgmtproto.k8s.io/v1alpha1\nkind: DeviceClass\nmetadata: {name: c}\nspec: {driver: gpu.example.com, deviceType: gpu, constraints: 'device[\"%s-\"] == 1'}\n", strings.Repeat("y", 9000))
	out, status := runStatus(pool.String(), "dray", "convert", "-f", "-")
	if status != 1 || len(out) > 20_000 {
		t.Errorf("status %d, %d bytes:\n%.600s", status, len(out), out)
	}
	for _, want := range []string{
		"no translation: DevicePool gpus: spec.devices[0].attributes[0].name: pcie-root: v1 wants a C identifier", "no translation: 2901 more fields, of DevicePool gpus, DeviceClass c\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%.2000s", want, out)
		}
	}
}

// A template by itself is an object of v1, too.
func TestConvertTemplateAlone(t *testing.T) {
	const template = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: t}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}}\n"
	out, status := runStatus(template, "dray", "convert", "-f", "-")
	if status != 1 || !strings.Contains(out, "no translation: ResourceClaimTemplate default/t: kind: the prototype has no such kind") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// withVolume is a pod with a volume, and a device for a node NODE.
const withVolume = `
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  resourceClaims: [{name: r, resourceClaimName: q}]
  containers: [{name: c, image: x}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: q, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: c}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec: {driver: gpu.example.com, nodeName: NODE, pool: {name: node-1, generation: 1, resourceSliceCount: 1}, devices: [{name: d}]}
`

// Aspects of a pod that are not looked at are printed once, whether it is placed or not.
func TestNotLookedAtIsSaidOnce(t *testing.T) {
	for node, status := range map[string]int{"node-1": 0, "another": 1} {
		for _, command := range [][]string{{"explain", "p"}, {"allocate"}} {
			out, got := runStatus(strings.ReplaceAll(withVolume, "NODE", node), append(append([]string{"dray"}, command...), "-f", "-")...)
			if strings.Count(out, "Not looked at: volumes") != 1 || got != status {
				t.Errorf("%v on node %s: status %d\n%s", command, node, got, out)
			}
		}
	}
}

// Simulations say the same of the pods that they ask about, placed or not, whatever the format, and documents have it
// in a field.
func TestSimulateSaysWhatIsNotLookedAt(t *testing.T) {
	const said = "Not looked at of pods like default/p: topology spread constraints, host ports, volumes, scheduling gates, the scheduler other."
	const field = `{.notLookedAt[0].pod}: {.notLookedAt[0].aspects[1]}, {.notLookedAt[0].aspects[2]}`
	pending := strings.Replace(withVolume, "  volumes:", "  schedulerName: other\n  schedulingGates: [{name: g}]\n  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]\n  volumes:", 1)
	pending = strings.Replace(pending, "image: x}", "image: x, ports: [{containerPort: 80, hostPort: 80}]}", 1)
	running := strings.Replace(pending, "  resourceClaims:", "  nodeName: node-1\n  resourceClaims:", 1)
	for node, index := range map[string]int{"node-1": 0, "another": 1} {
		for _, test := range []struct {
			command, manifest string
			status            [2]int // if the pod can be placed, and if it cannot
		}{
			{"fits", pending, [2]int{cli.ExitOK, cli.ExitOK}},
			{"what-if --remove node-1", pending, [2]int{cli.ExitOK, cli.ExitOK}},
			{"plan --like node-1", pending, [2]int{cli.ExitOK, cli.ExitNotPlaced}},
			{"plan --like node-1 --any", pending, [2]int{cli.ExitOK, cli.ExitNotPlaced}},
			{"victims p", pending, [2]int{cli.ExitOK, cli.ExitNotPlaced}},
			{"drain node-1", running, [2]int{cli.ExitNotPlaced, cli.ExitNotPlaced}},
		} {
			for format, want := range map[string]string{
				"": said, "-o wide": said, "-o json": `"aspects": [`, "-o yaml": "notLookedAt:\n- aspects:\n", "-o name": said, "-o custom-columns=A:.b": said,
				"-o jsonpath=" + strings.ReplaceAll(field, " ", "{'\\u0020'}"): "default/p: host ports, volumes\n",
			} {
				arguments := append(strings.Fields("dray simulate "+test.command), strings.Fields(format)...)
				out, status := runStatus(strings.ReplaceAll(test.manifest, "NODE", node), append(arguments, "-f", "-")...)
				flat := strings.Join(strings.Fields(out), " ") // lines are folded
				want = strings.Join(strings.Fields(want), " ")
				if status != test.status[index] || strings.Count(flat, want) != 1 || strings.Count(flat, said) != 1 {
					t.Errorf("%s %s, device on %s: status %d, want %d; want %q and %q once in:\n%s", test.command, format, node, status, test.status[index], want, said, out)
				}
			}
		}
	}
	if out := run(simulated, "dray", "simulate", "fits", "-f", "-", "-o", "json"); strings.Contains(out, "otLookedAt") || strings.Contains(out, "ot looked at") {
		t.Errorf("of pods that have nothing of it:\n%s", out)
	}
}

// Pods that differ otherwise are told of together, and nodes of which it is not known how much cpu they have are named.
func TestSimulateSaysOnceWhatIsNotLookedAt(t *testing.T) {
	_, pod, _ := strings.Cut(withVolume, "---\n")
	pod, _, _ = strings.Cut(pod, "---\n")
	other := strings.Replace(strings.Replace(pod, "name: p,", "name: p2,", 1), "image: x}", "image: x, resources: {limits: {example.com/fpga: 1}}}", 1)
	third := strings.Replace(strings.Replace(pod, "name: p,", "name: p3,", 1), "image: x}", "image: x, resources: {requests: {cpu: 1}}}", 1)
	out := run(strings.ReplaceAll(withVolume, "NODE", "node-1")+"---\n"+other+"---\n"+third, "dray", "simulate", "fits", "-o", "name", "-f", "-")
	want := "Not looked at of pods like default/p: volumes.\n" +
		"Not looked at of pods like default/p3: volumes, CPU, memory and other resources (nodes without status.allocatable).\n" +
		"default/p\ndefault/p2\ndefault/p3\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// Programs that read what allocate writes are told beside it.
func TestAllocateSaysToProgramsWhatIsNotLookedAt(t *testing.T) {
	out := run(strings.ReplaceAll(withVolume, "NODE", "node-1"), "dray", "allocate", "-o", "name", "-f", "-")
	if strings.Count(out, "Not looked at: volumes of 1 pod.\n") != 1 {
		t.Errorf("got\n%s", out)
	}
}
