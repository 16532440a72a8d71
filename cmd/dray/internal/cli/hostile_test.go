// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

const (
	sliceHead = `apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
`
	claimHead = `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu`
)

// progressDelay is far more than any of these takes, and far less than a hang.
const progressDelay = 2 * time.Minute

func TestHostileInput(t *testing.T) {
	giant := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct{ manifest, want string }{
		"10,000 devices": {
			sliceHead + "  devices:\n" + repeated(10_000, "  - {name: gpu-%d, attributes: {model: {string: H100}}}\n"),
			"spec.devices: Too many: 10000: must have at most 128 items",
		},
		"65 devices with taints": {
			sliceHead + "  devices:\n" + repeated(65, "  - {name: gpu-%d, taints: [{key: a, effect: None}]}\n"),
			"spec.devices: Too many: 65: must have at most 64 items",
		},
		"giant attribute": {
			sliceHead + "  devices:\n  - {name: gpu-0, attributes: {model: {string: " + giant + "}}}\n",
			"spec.devices[0].attributes[model].string: Too long: may not be more than 64 bytes",
		},
		"giant attribute name": {
			sliceHead + "  devices:\n  - name: gpu-0\n    attributes: {? " + giant + " : {int: 1}}\n",
			"Too long: may not be more than 32 bytes",
		},
		"giant device name": {
			sliceHead + "  devices:\n  - {name: " + giant + "}\n",
			"spec.devices[0].name: Too long",
		},
		"giant version": {
			sliceHead + "  devices:\n  - {name: gpu-0, attributes: {v: {version: 1.0.0-" + giant + "}}}\n",
			"Too long: may not be more than 64 bytes",
		},
		"giant quantity": {
			sliceHead + "  devices:\n  - {name: gpu-0, capacity: {memory: {value: '" + strings.Repeat("9", 1<<20) + "x'}}}\n",
			"spec.devices[0].capacity[memory].value",
		},
		"giant expression": {
			claimHead + ", selectors: [{cel: {expression: '" + giant + "'}}]}}]}}\n",
			"expression: Too long: may not be more than 10240 bytes",
		},
		"giant class name":    {claimHead + giant + "}}]}}\n", "deviceClassName: Too long"},
		"giant unknown field": {claimHead + ", ? " + giant + " : 1}}]}}\n", "unknown field"},
		"giant object name": {
			"apiVersion: v1\nkind: Node\nmetadata: {name: " + giant + "}\n", "metadata.name: Too long",
		},
		"giant kind":   {"apiVersion: v1\nkind: [" + giant + "]\n", "kind: want string, got array"},
		"giant scalar": {giant, "want a Kubernetes object"},
		"deep nesting": {"apiVersion: v1\nkind: Node\nmetadata: " + strings.Repeat("[", 100_000), "exceeded max depth"},
		"alias bomb":   {aliasBomb(), "excessive aliasing"},
		"1,000 requests": {
			"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n    requests:\n" +
				repeated(1000, "    - {name: r-%d, exactly: {deviceClassName: gpu}}\n"),
			"spec.devices.requests: Too many: 1000: must have at most 32 items",
		},
		"many errors": {
			repeated(1000, "---\napiVersion: v1\nkind: Node\nmetadata: {name: N%d}\n"),
			"error: and 980 more",
		},
		"not text": {"\xc3\x28\x00", "not UTF-8 text"},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			output, status := runStatus(test.manifest, "dray", "allocate", "-f", "-")
			if status != cli.ExitError || !strings.Contains(output, test.want) {
				t.Errorf("exit status %d, want %d; want %q in the output:\n%.2000s", status, cli.ExitError, test.want, output)
			}
			if len(output) > 20_000 {
				t.Errorf("the output has %d bytes: nobody reads that", len(output))
			}
			if took := time.Since(started); took > progressDelay {
				t.Errorf("took %s", took)
			}
		})
	}
}

func repeated(n int, format string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// aliasBomb doubles in each of its lines.
func aliasBomb() string {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Node\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text.String()
}
