// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompletion(t *testing.T) {
	atRepository(t)
	// 4 says that files are no answer.
	const end = ":4\n"
	for command, want := range map[string]string{
		"dray __complete explain -f examples/fleet-200 pre":                "pretrain-0\tPod in training\n" + end,
		"kubectl-dray __complete explain -f examples/fleet-200 pre":        "pretrain-0\tPod in training\n" + end,
		"/opt/bin/kubectl_complete-dray explain -f examples/fleet-200 pre": "pretrain-0\tPod in training\n" + end,
		"dray __complete explain -f examples/fleet-200 claim/job-00": strings.Join([]string{
			"claim/job-000-gpu\tResourceClaim in running", "claim/job-001-gpu\tResourceClaim in running", "claim/job-002-gpu\tResourceClaim in running",
			"claim/job-003-gpu\tResourceClaim in running", "claim/job-004-gpu\tResourceClaim in running", "claim/job-005-gpu\tResourceClaim in running",
			"claim/job-006-gpu\tResourceClaim in running", "claim/job-007-gpu\tResourceClaim in running", "claim/job-008-gpu\tResourceClaim in running",
			"claim/job-009-gpu\tResourceClaim in running", ""}, "\n") + end,
		"dray __complete explain -f examples/fleet-200 claim/pre":            "claim/pretrain-0-devices-874b8\tResourceClaim in training\n" + end,
		"dray __complete explain -f examples/fleet-200 -n serving pre":       end,
		"dray __complete explain -f examples/fleet-200 pretrain-0 pre":       end,
		"dray __complete explain -f examples/fleet-200 --node cpu-00":        nodesTo9("cpu-00") + end,
		"dray __complete allocate -f examples/fleet-200 --node=h100-03":      "h100-030\n" + nodesTo9("h100-03") + end,
		"dray __complete devices -f examples/single-gpu --node=x":            end,
		"dray __complete explain -f - pre":                                   end,
		"dray __complete usage --by ":                                        "namespace\nworkload\nnode\nclass\ndriver\nattribute=\n" + end,
		"dray __complete explain -f no/such/folder pre":                      end,
		"dray __complete explain -f examples/single-gpu -f - --node nothing": end,
	} {
		output, status := standardOutput(strings.Split(command, " ")...)
		if diff := cmp.Diff(want, output); diff != "" || status != 0 {
			t.Errorf("%s: exit status %d (-want +got):\n%s", command, status, diff)
		}
	}
}

// nodesTo9 names nodes from 1 to 9.
func nodesTo9(stem string) string {
	var names strings.Builder
	for _, digit := range "123456789" {
		names.WriteString(stem + string(digit) + "\n")
	}
	return names.String()
}

// TestCompletionOfMore has the names of pools, drivers, namespaces and makers, and the values of flags.
func TestCompletionOfMore(t *testing.T) {
	atRepository(t)
	server, kubeconfig := serve(t, "examples/prioritized-fallback")
	server.add(t, `{kind: Pod, apiVersion: v1, metadata: {name: web-5d9c-x, namespace: llm, labels: {pod-template-hash: 5d9c}, ownerReferences: [{kind: ReplicaSet, apiVersion: apps/v1, name: web-5d9c, uid: u, controller: true}]},
spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimTemplateName: serving-gpu}]}}`)
	server.add(t, `{kind: Pod, apiVersion: v1, metadata: {name: plain, namespace: llm, ownerReferences: [{kind: StatefulSet, apiVersion: apps/v1, name: plain, uid: u, controller: true}]}, spec: {containers: [{name: c, image: i}]}}`)
	server.add(t, `{kind: Pod, apiVersion: v1, metadata: {name: other-0, namespace: other, ownerReferences: [{kind: StatefulSet, apiVersion: apps/v1, name: other, uid: u, controller: true}]},
spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]}}`)
	const end = ":4\n"
	for command, want := range map[string]string{
		"devices -f examples/prioritized-fallback ":                    "a100-1\tpool of gpu.example.com\nh100-1\tpool of gpu.example.com\nl4-1\tpool of gpu.example.com\n" + end,
		"devices -f examples/prioritized-fallback a100-1 ":             "h100-1\tpool of gpu.example.com\nl4-1\tpool of gpu.example.com\n" + end,
		"devices -f examples/prioritized-fallback --driver g":          "gpu.example.com\n" + end,
		"explain -f examples/prioritized-fallback -n l":                "llm\n" + end,
		"explain -f examples/prioritized-fallback web":                 end,
		"explain --kubeconfig CONFIG --context test web":               "web-5d9c-x\tPod in llm\n" + end,
		"explain --kubeconfig CONFIG --context test replica":           "replicaset/web-5d9c\tReplicaSet in llm\n" + end,
		"explain --kubeconfig CONFIG --context test deploy":            "deployment/web\tDeployment in llm\n" + end,
		"explain --kubeconfig CONFIG --context test -n llm stateful":   end,
		"explain --kubeconfig CONFIG --context test -n other stateful": "statefulset/other\tStatefulSet in other\n" + end,
		"explain --kubeconfig CONFIG --context t":                      "test\n" + end,
		"explain --kubeconfig CONFIG --context x":                      end,
		"devices -f examples/single-gpu --validate ":                   "strict\nwarn\nignore\n" + end,
		"allocate -f examples/single-gpu --device-policy ":             "FirstFit\nLeastWaste\nPack\nSpread\n" + end,
	} {
		arguments := strings.Split(strings.Replace(command, "CONFIG", kubeconfig, 1), " ")
		output, status := standardOutput(append([]string{"dray", "__complete"}, arguments...)...)
		if diff := cmp.Diff(want, output); diff != "" || status != 0 {
			t.Errorf("%s: exit status %d (-want +got):\n%s", command, status, diff)
		}
	}
}
