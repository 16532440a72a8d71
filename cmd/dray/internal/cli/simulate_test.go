// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// nodeWithGPUs is node a, which has four.
const nodeWithGPUs = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: v1
kind: Node
metadata: {name: a}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-gpus}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}, {name: gpu-2}, {name: gpu-3}]
`

// simulated is a Deployment whose pods want two GPUs each, of which node a has too few.
const simulated = nodeWithGPUs + `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: registry.example.com/web, resources: {claims: [{name: gpus}]}}]
      resourceClaims: [{name: gpus, resourceClaimTemplateName: two}]
`

func TestSimulate(t *testing.T) {
	for _, test := range []struct{ command, want string }{
		{"dray simulate fits", "5        2"},
		{"dray simulate plan --like a", "a     2      5       0         0\n"},
		{"dray simulate plan --like a --most 1", "a     1      4       1         0\n[exit status 1]\n"},
		{"dray simulate fits -o json", `"fits": 2`},
		{"dray simulate plan -o jsonpath={.items[0].nodes}", "2"},
		{"dray simulate plan --any", "a            2      3"},
		{"dray simulate plan --any --like a --most 1", "1 pod without a place, 0 undecided"},
		{"dray simulate plan --any -o jsonpath={.items[0].like[0]}", "a"},
		{"dray simulate plan --any --like a,a", "a            2      3"},
		{"dray simulate plan --any --like x", "node x does not exist"},
		{"dray simulate drain a", "POD"},
		{"dray simulate drain x", "node x does not exist"},
		{"dray simulate plan --like x", "node x does not exist"},
	} {
		out := run(simulated, append(strings.Fields(test.command), "-f", "-")...)
		if !strings.Contains(out, test.want) {
			t.Errorf("%s: %q is not part of:\n%s", test.command, test.want, out)
		}
	}
	if out, status := runStatus(simulated, "dray", "simulate", "plan", "-f", "-"); status != cli.ExitOK {
		t.Errorf("all pods have a place, and the exit status is %d:\n%s", status, out)
	}
}

// Where no pod waits, that is said, and not only a header printed.
func TestSimulateWithoutPods(t *testing.T) {
	const nobody = "no pod is pending: there is none to ask about"
	for _, command := range []string{"dray simulate fits", "dray simulate plan --like a", "dray simulate fits -o json", "dray simulate what-if --remove a"} {
		if out := run(nodeWithGPUs, append(strings.Fields(command), "-f", "-")...); !strings.Contains(out, nobody) {
			t.Errorf("%s: %q is not part of:\n%s", command, nobody, out)
		}
		if out := run(simulated, append(strings.Fields(command), "-f", "-")...); strings.Contains(out, nobody) {
			t.Errorf("%s, with pods: %s", command, out)
		}
	}
}

// A new node can be like a or b as long as its pods fit on either.
func TestSimulatePlanAny(t *testing.T) {
	b := strings.NewReplacer("{name: a}", "{name: b}", "{name: a-gpus}", "{name: b-gpus}", "nodeName: a", "nodeName: b", "{name: a, gen", "{name: b, gen",
		"{name: gpu-3}", "{name: gpu-3}, {name: gpu-4}, {name: gpu-5}").Replace(nodeWithGPUs[strings.Index(nodeWithGPUs, "---"):])
	for replicas, want := range map[string]string{
		"7": "LIKE ANY OF  NODES  PODS\na,b          1      2\n",
		"8": "LIKE ANY OF  NODES  PODS\nb            1      3\n",
	} {
		input := strings.Replace(simulated, "replicas: 5", "replicas: "+replicas, 1) + b
		if out := run(input, strings.Fields("dray simulate plan --any --like a,b -f -")...); !strings.Contains(out, want) {
			t.Errorf("%s pods: %q is not part of:\n%s", replicas, want, out)
		}
	}
}
