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

// Each command says by an example how it is used, and what its exit status means.
func TestHelpHasExamplesAndExitStatus(t *testing.T) {
	commands := []string{"", "allocate", "explain", "devices", "usage", "convert", "simulate", "version", "options"}
	root, _ := runStatus("", "dray", "--help")
	for _, name := range commands[1:] {
		if !strings.Contains(root, "\n  "+name+" ") {
			t.Errorf("dray --help does not list %s", name)
		}
	}
	simulations, _ := runStatus("", "dray", "simulate", "--help")
	_, list, _ := strings.Cut(simulations, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		commands = append(commands, "simulate "+strings.Fields(line)[0])
	}
	for _, command := range commands {
		out, status := runStatus("", append(append([]string{"dray"}, strings.Fields(command)...), "--help")...)
		example := "\n  dray " + command
		if status != cli.ExitOK || !strings.Contains(out, "Exit status:") || !strings.Contains(out, "Examples:\n") || !strings.Contains(out, example) {
			t.Errorf("dray %s --help: status %d, wants an example and what the exit status means:\n%s", command, status, out)
		}
	}
	if len(commands) < 14 {
		t.Errorf("%d commands were looked at: %q", len(commands), commands)
	}
}

// The selection chooses the pods that are asked about.
func TestSimulateSelects(t *testing.T) {
	labelled := strings.Replace(contended, "metadata: {name: middle, namespace: default}", "metadata: {name: middle, namespace: ml, labels: {app: x}}", 1)
	labelled = strings.Replace(labelled, "metadata: {name: two, namespace: default}", "metadata: {name: two, namespace: ml}", 1)
	for command, want := range map[string]string{
		"fits -o jsonpath={.items[*].pod}":                       "ml/middle default/prioritized\n",
		"fits -o jsonpath={.items[*].pod} -A":                    "ml/middle default/prioritized\n",
		"fits -o jsonpath={.items[*].pod} -n ml":                 "ml/middle\n",
		"what-if --add a=1 -l app=x -o jsonpath={.items[*].pod}": "ml/middle\n",
		"plan --like a -l app=x -o jsonpath={.items[*].placed}":  "1\n",
		"fits -l app=none -o name":                               "no pod that is pending can be asked about: -n, -A, -l and --field-selector choose among 2 pods\n",
		"fits -l a===b":                                          "error: --selector: ",
	} {
		out, _ := runStatus(labelled, append(strings.Fields("dray simulate "+command), "-f", "-")...)
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s: got\n%s\nwant %q", command, out, want)
		}
	}
}

// Values of flags that are one of a few are completed, and names that the input has.
func TestCompletesValues(t *testing.T) {
	const in = " -f testdata/cluster.yaml "
	for command, want := range map[string]string{
		"allocate --validate=":                                     "strict\nwarn\nignore\n:4\n",
		"allocate --device-policy=":                                "FirstFit\nLeastWaste\nPack\nSpread\n:4\n",
		"devices --feature-gates=":                                 "DRAAdminAccess=true\nDRAAdminAccess=false\n",
		"explain" + in + "--namespace=n":                           ":4\n",
		"explain -f ../../../../examples/fleet-200 --namespace=tr": "training\n:4\n",
		"devices" + in + "--driver=g":                              "gpu.example.com\n:4\n",
		"simulate what-if" + in + "--driver=":                      "gpu.example.com\n",
	} {
		out, status := standardOutput(append([]string{"dray", "__complete"}, strings.Fields(command)...)...)
		if status != cli.ExitOK || !strings.HasPrefix(out, want) {
			t.Errorf("%s: status %d, got\n%s\nwant %q", command, status, out, want)
		}
	}
	for _, policy := range []string{"FirstFit", "LeastWaste", "Pack", "Spread"} {
		if out, _ := runStatus("", "dray", "simulate", "fits", "-f", "testdata/cluster.yaml", "--device-policy", policy); strings.Contains(out, "error") {
			t.Errorf("--device-policy %s: %s", policy, out)
		}
	}
	// There is nothing to explain of a pod without devices.
	manifest := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: trainer, namespace: ml}, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}\n" +
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: depot, namespace: ml}, spec: {containers: [{name: c, image: x}]}}\n"
	file := filepath.Join(t.TempDir(), "d.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := standardOutput("dray", "__complete", "explain", "-f", file, "dep"); out != "deployment/trainer\tDeployment in ml\n:4\n" {
		t.Errorf("completed to %q", out)
	}
}

// Objects of unknown kinds that use claims are named, and what they need is not there.
func TestObjectsWhosePodsAreNotKnown(t *testing.T) {
	const fine = "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: k}, spec: {resourceClaims: []}}\n"
	for object, kind := range map[string]string{
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: o, namespace: ml}, spec: {template: {spec: {resourceClaims: [{name: g, resourceClaimTemplateName: t}]}}}}":                    "VirtualMachine.kubevirt.io",
		"{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: o, namespace: ml}, spec: {predictor: {resourceClaims: [{name: g, resourceClaimName: c}]}}}":                      "InferenceService.serving.kserve.io",
		"{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: o, namespace: ml}, spec: {templates: [{name: a, container: {image: x}, resourceClaims: [{name: g, resourceClaimName: c}]}]}}": "Workflow.argoproj.io",
	} {
		for _, command := range []string{"explain", "explain -o json"} {
			out, status := runStatus(fine+"---\n"+object, append(strings.Fields("dray "+command), "-f", "-")...)
			want := "ml/o: it uses ResourceClaims, but which pods objects of kind " + kind + " make is not known: they are not looked at"
			if status != cli.ExitNotPlaced || !strings.Contains(out, want) {
				t.Errorf("%s: status %d, want %q in\n%s", kind, status, want, out)
			}
		}
		if out, status := runStatus(fine+"---\n"+object, "dray", "explain", "-n", "other", "-f", "-"); status != cli.ExitOK {
			t.Errorf("of another namespace: status %d\n%s", status, out)
		}
	}
	if out, status := runStatus(fine, "dray", "explain", "-f", "-"); status != cli.ExitOK || !strings.Contains(out, "ignored: 1 KubeVirt.kubevirt.io") {
		t.Errorf("without claims: status %d\n%s", status, out)
	}
}

// An object is known by its pods, even if what is between them was not read, as from a cluster.
func TestExplainOwnersOfOwners(t *testing.T) {
	pod := func(name, owner, labels string) string {
		kind, of, _ := strings.Cut(owner, "/")
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s}, ownerReferences: [{apiVersion: v1, kind: %s, name: %s, uid: u, controller: true}]}, spec: {nodeName: n1, containers: [{name: c, image: x}]}}\n", name, labels, kind, of)
	}
	manifest := "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n" +
		pod("web-abc12-xyz", "ReplicaSet/web-abc12", "pod-template-hash: abc12") +
		pod("bare-0", "ReplicaSet/bare", "x: z") +
		pod("nightly-29400000-q", "Job/nightly-29400000", "x: z") +
		pod("train-workers-0-q", "Job/train-workers-0", "jobset.sigs.k8s.io/jobset-name: train") +
		pod("llm-0-1", "StatefulSet/llm-0", "leaderworkerset.sigs.k8s.io/name: llm") +
		pod("virt-launcher-desk-x", "VirtualMachineInstance/desk", "x: z") +
		pod("chat-predictor-7d-q", "ReplicaSet/chat-predictor-7d", "pod-template-hash: 7d, serving.kserve.io/inferenceservice: chat") +
		pod("etl-main-1", "Workflow/etl", "x: z")
	for subject, want := range map[string]string{
		"deployment/web":          "Pod default/web-abc12-xyz is on node n1.",
		"deploy/web":              "Pod default/web-abc12-xyz is on node n1.",
		"replicaset/web-abc12":    "Pod default/web-abc12-xyz is on node n1.",
		"cronjob/nightly":         "Pod default/nightly-29400000-q is on node n1.",
		"cj/nightly":              "Pod default/nightly-29400000-q is on node n1.",
		"jobset/train":            "Pod default/train-workers-0-q is on node n1.",
		"job/train-workers-0":     "Pod default/train-workers-0-q is on node n1.",
		"deployment.apps/web":     "Pod default/web-abc12-xyz is on node n1.",
		"lws/llm":                 "Pod default/llm-0-1 is on node n1.",
		"leaderworkerset/llm":     "Pod default/llm-0-1 is on node n1.",
		"vm/desk":                 "Pod default/virt-launcher-desk-x is on node n1.",
		"virtualmachines/desk":    "Pod default/virt-launcher-desk-x is on node n1.",
		"vmi/desk":                "Pod default/virt-launcher-desk-x is on node n1.",
		"isvc/chat":               "Pod default/chat-predictor-7d-q is on node n1.",
		"deploy/chat-predictor":   "Pod default/chat-predictor-7d-q is on node n1.",
		"workflow/etl":            "Pod default/etl-main-1 is on node n1.",
		"wf/etl":                  "Pod default/etl-main-1 is on node n1.",
		"deployment/bare":         "error: deployment default/bare has no pods",
		"deployment/web-abc12":    "error: deployment default/web-abc12 has no pods",
		"deployment/wbe":          "error: deployment default/wbe has no pods: did you mean web?\n",
		"cronjob/train-workers":   "error: cronjob default/train-workers has no pods",
		"deployment/web-abc12-xy": "error: deployment default/web-abc12-xy has no pods",
	} {
		if out := run(manifest, "dray", "explain", subject, "-f", "-"); !strings.HasPrefix(out, want) {
			t.Errorf("%s: got\n%s\nwant %q", subject, out, want)
		}
	}
}

// KIND NAME is what kubectl takes, too. A pod that is called as a kind comes first.
func TestExplainKindAndNames(t *testing.T) {
	const pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: n1, containers: [{name: c, image: x}]}}\n"
	manifest := "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n" + fmt.Sprintf(pod, "a") + fmt.Sprintf(pod, "b")
	for arguments, want := range map[string]string{
		"pod a":             "Pod default/a is on node n1.",
		"pods a b":          "Placed, or can be placed: 2 of 2 pods and claims.",
		"po/a":              "Pod default/a is on node n1.",
		"claim c":           "error: ResourceClaim default/c does not exist",
		"deploy web":        "error: deployment default/web has no pods",
		"deployments x":     "error: deployment default/x has no pods",
		"jobset.x-k8s.io x": "error: jobset default/x has no pods",
		"pod":               "error: Pod default/pod does not exist",
		"pod/a b":           "Placed, or can be placed: 2 of 2 pods and claims.",
		"pod/":              `error: "pod/": no name: want POD, claim/NAME or KIND/NAME`,
		"deployment/":       `error: "deployment/": no name`,
	} {
		if out := run(manifest, append(append([]string{"dray", "explain"}, strings.Fields(arguments)...), "-f", "-")...); !strings.HasPrefix(out, want) {
			t.Errorf("%s: got\n%s\nwant %q", arguments, out, want)
		}
	}
	if out := run(manifest+fmt.Sprintf(pod, "pod"), "dray", "explain", "pod", "a", "-f", "-"); !strings.HasPrefix(out, "Placed, or can be placed: 2 of 2 pods") {
		t.Errorf("a pod that is called pod:\n%s", out)
	}
	if out := run(manifest, "dray", "explain", "", "-f", "-"); !strings.HasPrefix(out, `error: "": no name`) {
		t.Errorf("no name:\n%s", out)
	}
}

// A node is asked who could use it, and why it is idle.
func TestExplainNode(t *testing.T) {
	pod := func(name string, gpus int) string {
		return fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %[1]s}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: %[2]d}}]}}}\n"+
			"---\n{apiVersion: v1, kind: Pod, metadata: {name: %[1]s}, spec: {containers: [{name: c, image: x}], resourceClaims: [{name: g, resourceClaimName: %[1]s}]}}\n", name, gpus)
	}
	manifest := nodeWithGPUs + "---\n{apiVersion: v1, kind: Node, metadata: {name: b}}\n" + pod("large", 5) + pod("small", 2)
	for _, test := range []struct {
		arguments string
		status    int
		want      []string
	}{
		{"node/a", cli.ExitNotPlaced, []string{"Node a reaches 4 devices: 0 held, 4 free, 0 stranded.\n", "Pod default/large is not placed: it does not fit node a.", "default/small can be placed on it.\n", "Placed, or can be placed: 1 of 2 pods and claims."}},
		{"node b", cli.ExitNotPlaced, []string{"Node b reaches 0 devices: 0 held, 0 free, 0 stranded.\n", "Placed, or can be placed: 0 of 2 pods and claims."}},
		{"nodes/a -o jsonpath={.items[1].fits[0]}", cli.ExitNotPlaced, []string{"\na\n"}},
		{"node/c", cli.ExitError, []string{"error: --node c: there is no such node"}},
		{"node/a small", cli.ExitError, []string{"error: node/a: want one node, and neither other subjects nor another --node"}},
		{"node/a --node b", cli.ExitError, []string{"error: node/a: want one node"}},
		{"node/", cli.ExitError, []string{"no name"}},
	} {
		out, status := runStatus(manifest, append(append([]string{"dray", "explain"}, strings.Fields(test.arguments)...), "-f", "-")...)
		for _, want := range test.want {
			if !strings.Contains("\n"+out, want) || status != test.status {
				t.Errorf("%s: status %d, want %d and %q in\n%s", test.arguments, status, test.status, want, out)
			}
		}
	}
}

// A name without a kind is that of a pod. Where a claim has it, that is said.
func TestExplainHintsAtClaim(t *testing.T) {
	const manifest = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: shared}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: g}}]}}}\n"
	out, status := runStatus(manifest, "dray", "explain", "shared", "-f", "-")
	if want := "error: Pod default/shared does not exist; there is a ResourceClaim of that name: claim/shared\n"; status != cli.ExitError || out != want {
		t.Errorf("status %d, got %q, want %q", status, out, want)
	}
}

// Fields of a request in v1beta1 are in exactly in later versions.
func TestFieldsThatMoved(t *testing.T) {
	const request = "{apiVersion: resource.k8s.io/%s, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: r, deviceClassName: g, count: 2}]}}}\n"
	const hint = `unknown field "spec.devices.requests[0].deviceClassName": since v1beta2 it is exactly.deviceClassName of the request`
	for version, want := range map[string]bool{"v1": true, "v1beta2": true, "v1beta1": false} {
		out, _ := runStatus(fmt.Sprintf(request, version), "dray", "allocate", "-f", "-")
		if strings.Contains(out, hint) != want || strings.Contains(out, "exactly.count") != want {
			t.Errorf("%s: hint: %v, want %v:\n%s", version, !want, want, out)
		}
	}
}
