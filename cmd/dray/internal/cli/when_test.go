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

// holding is a pod on node a that has two of its GPUs.
func holding(name string, first int, metadata, spec string) string {
	return fmt.Sprintf(`---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %[1]s-gpus, namespace: default}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}
status:
  allocation: {devices: {results: [{request: gpus, driver: gpu.example.com, pool: a, device: gpu-%[2]d}, {request: gpus, driver: gpu.example.com, pool: a, device: gpu-%[3]d}]}}
  reservedFor: [{resource: pods, name: %[1]s, uid: u}]
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, uid: u%[4]s}
spec:
  nodeName: a
  containers: [{name: main, image: x}]
  resourceClaims: [{name: gpus, resourceClaimName: %[1]s-gpus}]
%[5]s
status: {phase: Running}
`, name, first, first+1, metadata, spec)
}

// waitsFor is a pod that wants a number of GPUs.
func waitsFor(name string, gpus int, spec string) string {
	return fmt.Sprintf(`---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %[1]s, namespace: default}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: %[2]d}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, creationTimestamp: "2026-11-25T11:00:00Z"}
spec:
  containers: [{name: main, image: x}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: %[1]s}]
%[3]s
`, name, gpus, spec)
}

// queueOnA has two pods that run, of which early says itself when it ends and late through its Job, and two that wait.
var queueOnA = nodeWithGPUs +
	holding("early", 0, `, annotations: {dray-project.github.io/expected-end: "2026-11-25T13:00:00Z"}`, "") +
	holding("late", 2, `, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: work, uid: j, controller: true}]`, "") +
	`---
apiVersion: batch/v1
kind: Job
metadata: {name: work, namespace: default, uid: j}
spec:
  activeDeadlineSeconds: 10800
  parallelism: 1
  completions: 1
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}
status: {startTime: "2026-11-25T12:00:00Z", active: 1}
` + waitsFor("all", 4, "  priority: 10\n  activeDeadlineSeconds: 3600\n") + waitsFor("one", 1, "")

// Pods start after the ends that they, their Jobs and the file say.
func TestSimulateWhen(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "ends.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const starts = "{range~.items[*]}{.name}={.starts},{.after[*].pod};{end}"
	for _, test := range []struct {
		flags, file string
		status      int
		want        string
	}{
		{"", "", cli.ExitOK, "default/all 1 2026-11-25T15:00:00Z default/late,default/early\ndefault/one 1 2026-11-25T16:00:00Z default/all,default/late,default/early"},
		{"-o jsonpath=" + starts, "", cli.ExitOK, "default/all=2026-11-25T15:00:00Z,default/early default/late;default/one=2026-11-25T16:00:00Z,default/early default/late default/all;"},
		{"--backfill -o jsonpath=" + starts, "", cli.ExitNotPlaced, "default/all=,;default/one=2026-11-25T13:00:00Z,default/early;"},
		{"--backfill", "", cli.ExitNotPlaced, "default/all 1 never none"},
		{"--backfill", "", cli.ExitNotPlaced, "default/all has no place even after the last of the ends"},
		{"one -o jsonpath=" + starts, "", cli.ExitOK, "default/one=2026-11-25T13:00:00Z,default/early;"},
		{"-o name", "", cli.ExitOK, "default/all\ndefault/one"},
		{"-o yaml", "", cli.ExitOK, "kind: SimulatedStartList"},
		{"all -o jsonpath=" + starts, "early 30m\n\n# a comment\ndefault/late 2026-11-25T12:45:00Z # another\n", cli.ExitOK, "default/all=2026-11-25T12:45:00Z,default/early default/late;"},
		{"all -o jsonpath=" + starts, "late 1h\n", cli.ExitOK, "default/all=2026-11-25T13:00:00Z,default/early default/late;"},
		{"", "late soon\n", cli.ExitError, `line 1: "soon": want a time such as`},
		{"", "late\n", cli.ExitError, "line 1: want a pod and a time"},
		{"", "late 1h\ndefault/late 2h\n", cli.ExitError, "line 2: pod default/late is named twice"},
		{"", "lat 1h\n", cli.ExitError, "line 1: Pod default/lat is on no node: did you mean late?"},
		{"", "ml/late 1h\n", cli.ExitError, "line 1: pod ml/late is on no node"},
		{"--now never", "", cli.ExitError, `--now: "never": want a time such as`},
		{"two", "", cli.ExitError, "Pod default/two does not wait for devices"},
		{"--ends none.txt", "", cli.ExitError, "--ends: open none.txt: "},
	} {
		arguments := []string{"dray", "simulate", "when", "-f", "-"}
		for _, flag := range strings.Fields(test.flags) {
			arguments = append(arguments, strings.ReplaceAll(flag, "~", " "))
		}
		if !strings.Contains(test.flags, "--now") {
			arguments = append(arguments, "--now", "2026-11-25T12:00:00Z")
		}
		if test.file != "" {
			arguments = append(arguments, "--ends", file(test.file))
		}
		out, status := runStatus(queueOnA, arguments...)
		var flat strings.Builder
		for line := range strings.Lines(out) {
			flat.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
		}
		if status != test.status || !strings.Contains(flat.String(), test.want) {
			t.Errorf("%s with %q: status %d, want %d and %q in\n%s", test.flags, test.file, status, test.status, test.want, flat.String())
		}
	}
}

// As many pods of a group as it needs start together, and a wrong annotation of one pod is not in the way of others.
func TestSimulateWhenOfGroups(t *testing.T) {
	const group = `---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
`
	const member = "  schedulingGroup: {podGroupName: gang}\n"
	input := queueOnA + group + waitsFor("first", 1, member) + waitsFor("second", 2, member) + waitsFor("third", 2, member)
	input = strings.Replace(input, `"2026-11-25T13:00:00Z"`, "soon", 1)
	out, status := runStatus(input, strings.Fields("dray simulate when podgroup/gang -f - --now 2026-11-25T12:00:00Z -o jsonpath={.items[*]['kind','name','pods','starts']}")...)
	for _, want := range []string{"warning: left out: pod default/early: metadata.annotations[dray-project.github.io/expected-end]: ", "PodGroup default/gang 2"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if status != cli.ExitNotPlaced || strings.Contains(out, "2026-11-25T15") {
		t.Errorf("with two GPUs free of three that are needed: status %d\n%s", status, out)
	}
	out, status = runStatus(strings.Replace(input, "soon", `"2026-11-25T13:00:00Z"`, 1), strings.Fields("dray simulate when podgroup/gang -f - --now 2026-11-25T12:00:00Z -o jsonpath={.items[*]['name','pods','starts']}")...)
	if want := "default/gang 2 2026-11-25T15:00:00Z"; status != cli.ExitOK || !strings.Contains(out, want) {
		t.Errorf("status %d, want %q in\n%s", status, want, out)
	}
}

// The cluster says what Jobs say.
func TestSimulateWhenLive(t *testing.T) {
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "all.yaml"), []byte(queueOnA), 0o600); err != nil {
		t.Fatal(err)
	}
	server, kubeconfig := serve(t, files)
	arguments := []string{"dray", "simulate", "when", "-n", "default", "--now", "2026-11-25T12:00:00Z", "--kubeconfig", kubeconfig, "--context", "test"}
	if out, status := runStatus("", arguments...); status != cli.ExitOK || !strings.Contains(out, "2026-11-25T15:00:00Z") {
		t.Errorf("status %d:\n%s", status, out)
	}
	// Without permission for all Jobs, those of the namespace are asked for.
	const want = "warning: list jobs: not permitted in all namespaces: what Jobs of others than default say"
	jobs := server.objects[paths["Job"]]
	for _, test := range []struct {
		jobs   []map[string]any
		status int
	}{{jobs, cli.ExitOK}, {nil, cli.ExitNotPlaced}} {
		server.refuse, server.objects["/apis/batch/v1/namespaces/default/jobs"] = paths["Job"], test.jobs
		if out, status := runStatus("", arguments...); status != test.status || !strings.Contains(out, want) {
			t.Errorf("%d jobs: status %d, want %d and %q in\n%s", len(test.jobs), status, test.status, want, out)
		}
	}
}

// Pods of a group start, and others move for them, where they have in common what the group asks for.
func TestSimulateGroupsWithConstraints(t *testing.T) {
	const group = `---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: default%s}
spec: {schedulingPolicy: {gang: {minCount: 2}}%s}
`
	const member = "  schedulingGroup: {podGroupName: gang}\n"
	// Node a has a pod with two of four GPUs, node b two GPUs that are free. The attribute tells the racks of GPUs apart.
	rack := func(manifest string) string {
		manifest = strings.NewReplacer("{name: a}\n", "{name: a, labels: {rack: r1}}\n", "{name: b}\n", "{name: b, labels: {rack: r2}}\n").Replace(manifest)
		a, b, _ := strings.Cut(manifest, "  nodeName: b")
		for i := range 4 {
			device := fmt.Sprintf("{name: gpu-%d}", i)
			with := func(rack string) string {
				return fmt.Sprintf(`{name: gpu-%d, attributes: {rack: {string: %q}}}`, i, rack)
			}
			a, b = strings.Replace(a, device, with("r1"), 1), strings.Replace(b, device, with("r2"), 1)
		}
		return a + "  nodeName: b" + b
	}
	cluster := rack(strings.NewReplacer(holding("right", 2, owned, "  priority: 5\n"), "", waitsFor("wants", 2, "  priority: 5\n"), "", waitsFor("large", 4, "  priority: 5\n"), "", "  priority: 5\n", "").Replace(twoNodes))
	cluster += waitsFor("first", 2, member) + waitsFor("second", 2, member)
	annotation := func(text string) string { return ", annotations: {dray-project.github.io/extension: '" + text + "'}" }
	for _, test := range []struct {
		name, annotation, spec string
		when, repack           string
	}{
		{"none", "", "", "podgroup/default/gang 2 2026-11-25T12:00:00Z none", "podgroup/gang fits as it is"},
		{"label", "", ", schedulingConstraints: {topology: [{key: rack}]}", "podgroup/default/gang 2 2026-11-25T13:00:00Z default/left", "podgroup/gang fits after 1 move, which costs 1, and nothing less will do"},
		{"attribute", annotation(`{"constraints": [{"matchAttribute": "gpu.example.com/rack"}]}`), "", "podgroup/default/gang 2 2026-11-25T13:00:00Z default/left", "podgroup/gang fits after 1 move"},
		{"preferred", annotation(`{"preferred": [{"matchAttribute": "gpu.example.com/rack"}]}`), "", "podgroup/default/gang 2 2026-11-25T12:00:00Z none", "podgroup/gang fits as it is"},
		{"most", annotation(`{"maxDistinct": [{"attribute": "gpu.example.com/rack", "most": 1}]}`), "", "Not looked at of pods like default/first: maxDistinct of the PodGroup", "Not looked at of pods like default/first: maxDistinct of the PodGroup"},
		{"wrong", annotation(`{"constraint": []}`), "", "error: PodGroup default/gang: annotation dray-project.github.io/extension: ", "error: --for: PodGroup default/gang: annotation dray-project.github.io/extension: "},
	} {
		input := cluster + fmt.Sprintf(group, test.annotation, test.spec)
		for command, want := range map[string]string{
			"when podgroup/gang --now 2026-11-25T12:00:00Z --ends ENDS": test.when, "repack --for podgroup/gang": test.repack,
		} {
			path := filepath.Join(t.TempDir(), "ends")
			if err := os.WriteFile(path, []byte("left 1h\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, _ := runStatus(input, strings.Fields("dray simulate -f - "+strings.Replace(command, "ENDS", path, 1))...)
			if flat := strings.Join(strings.Fields(out), " "); !strings.Contains(flat, want) {
				t.Errorf("%s: %s: want %q in\n%s", test.name, command, want, out)
			}
		}
	}
}
