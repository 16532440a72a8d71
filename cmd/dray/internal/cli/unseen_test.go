// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// nodeWith is a node of the GPU driver with some devices.
func nodeWith(name, devices string) string {
	return fmt.Sprintf(`
---
{apiVersion: v1, kind: Node, metadata: {name: %[1]s}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s}, spec: {driver: gpu.example.com, nodeName: %[1]s, pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}, devices: [%[2]s]}}
`, name, devices)
}

// claimOf is a claim of namespace ml with its devices spec, and the annotation of an extension unless that is empty.
func claimOf(name, devices, extension string) string {
	annotations := ""
	if extension != "" {
		annotations = fmt.Sprintf(", annotations: {dray-project.github.io/extension: '%s'}", extension)
	}
	return fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s, namespace: ml%s}, spec: {devices: {%s}}}\n", name, annotations, devices)
}

const (
	gpuClass = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: device.driver == \"gpu.example.com\"}}]}}\n"
	gpuPair  = "requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]"
)

// brokenPool is a second pool of a node, of which a slice is missing.
func brokenPool(node string) string {
	return fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: half-%[1]s}, spec: {driver: gpu.example.com, nodeName: %[1]s, pool: {name: half-%[1]s, generation: 1, resourceSliceCount: 2}, devices: [{name: h}]}}\n", node)
}

// meeting are cases where two rules meet.
var meeting = map[string]particular{
	"a pool that cannot be used is one of the node whose figures are shown": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0}") + brokenPool("m") + nodeWith("m2", "{name: g0}") + brokenPool("m2") + claimOf("c", gpuPair, ""),
		cli.ExitNotPlaced, "2 nodes (m, m2): this cannot be met, with the figures of m, which comes closest:", "half-m2",
	},
	"a preferred match is that of the claim which is not allocated yet": {
		"explain pod/w", gpuClass + nodeWith("m", "{name: g0, attributes: {numa: {int: 0}}}, {name: g1, attributes: {numa: {int: 1}}}, {name: held, attributes: {numa: {int: 1}}}") + `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: done, namespace: ml, uid: u9}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: m, device: held}]}}}
` + claimOf("later", gpuPair, `{"preferred": [{"matchAttribute": "gpu.example.com/numa"}]}`) + `
---
{apiVersion: v1, kind: Pod, metadata: {name: w, namespace: ml}, spec: {containers: [{name: c, image: i}], resourceClaims: [{name: done, resourceClaimName: done}, {name: later, resourceClaimName: later}]}}
`, cli.ExitOK, "numa of claim later", "of claim done",
	},
	"the more important of two preferred matches decides": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0, attributes: {numa: {int: 0}, root: {int: 0}}}, {name: g1, attributes: {numa: {int: 1}, root: {int: 0}}}") +
			nodeWith("m2", "{name: g0, attributes: {numa: {int: 0}, root: {int: 0}}}, {name: g1, attributes: {numa: {int: 0}, root: {int: 1}}}") +
			claimOf("c", gpuPair, `{"preferred": [{"matchAttribute": "gpu.example.com/numa"}, {"matchAttribute": "gpu.example.com/root"}]}`),
		cli.ExitOK, "can be placed on 2 of 2 nodes; m2 has most of what is preferred.", "",
	},
	"shares of one device are not counted as devices": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0, allowMultipleAllocations: true, capacity: {memory: {value: 10}}}") +
			claimOf("c", "requests: [{name: r, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 6}}}}, {name: s, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 6}}}}]", ""),
		cli.ExitNotPlaced, "these cannot hold together", "together they need",
	},
	"devices that are no shares are": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0}") +
			claimOf("c", "requests: [{name: r, exactly: {deviceClassName: gpu}}, {name: s, exactly: {deviceClassName: gpu}}]", ""),
		cli.ExitNotPlaced, "together they need 2 devices, and 1 are there for them", "",
	},
	"a request for all devices needs another number on each node": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0}, {name: g1}") +
			claimOf("c", "requests: [{name: every, exactly: {deviceClassName: gpu, allocationMode: All}}, {name: s, exactly: {deviceClassName: gpu}}]", ""),
		cli.ExitNotPlaced, "request every needs all 2 matching devices", "together they need",
	},
	"alternatives need different numbers of devices": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0}") +
			claimOf("c", "requests: [{name: r, firstAvailable: [{name: two, deviceClassName: gpu, count: 2}, {name: one, deviceClassName: gpu}]}, {name: s, exactly: {deviceClassName: gpu}}]", ""),
		cli.ExitNotPlaced, "these cannot hold together", "together they need",
	},
	"a node that lists nothing but CPU has no more of it": {
		"explain pod/w", gpuClass + strings.Replace(nodeWith("m", "{name: g0}"), "{name: m}}", "{name: m}, status: {allocatable: {cpu: 1}}}", 1) +
			claimOf("c", "requests: [{name: r, exactly: {deviceClassName: gpu}}]", "") +
			"---\n{apiVersion: v1, kind: Pod, metadata: {name: w, namespace: ml}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}], resourceClaims: [{name: c, resourceClaimName: c}]}}\n",
		cli.ExitNotPlaced, "cpu", "",
	},
	"of two classes, that which has the device says what it lacks": {
		"explain claim/c", gpuClass + "---\n" + strings.ReplaceAll(gpuClass, "gpu", "tpu") + nodeWith("m", "{name: g0, attributes: {model: {string: A100}}}") +
			claimOf("c", "requests: [{name: r, exactly: {deviceClassName: tpu}}]",
				`{"requests": {"r": {"classes": [{"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.attributes[\"gpu.example.com\"].model == \"H100\""}}]}]}}}`),
		cli.ExitNotPlaced, `model is "A100"`, "",
	},
	"the domain of the device's driver is named first": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: g0, attributes: {acme.example.com/model: {string: A100}, model: {string: A100}}}") +
			claimOf("c", `requests: [{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'has(device.attributes["zz"].foo)'}}]}}]`, ""),
		cli.ExitNotPlaced, "domains are gpu.example.com, acme.example.com", "",
	},
	"a partition whose counters are in use has no value to agree in": {
		"explain claim/c", gpuClass + nodeWith("m", "{name: a, attributes: {root: {int: 1}}}, {name: b, attributes: {root: {int: 2}}}") + `
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: counters}, spec: {driver: gpu.example.com, nodeName: m, pool: {name: parts, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: set, counters: {memory: {value: 1}}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: parts}, spec: {driver: gpu.example.com, nodeName: m, pool: {name: parts, generation: 1, resourceSliceCount: 2}, devices: [{name: whole, attributes: {root: {int: 1}}, consumesCounters: [{counterSet: set, counters: {memory: {value: 1}}}]}, {name: same, attributes: {root: {int: 1}}, consumesCounters: [{counterSet: set, counters: {memory: {value: 1}}}]}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: held, namespace: ml, uid: u1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: parts, device: whole}]}}}
` + claimOf("c", gpuPair+", constraints: [{matchAttribute: gpu.example.com/root}]", ""),
		cli.ExitNotPlaced, "root is 1 (1), 2 (1)", "",
	},
	"of a device with a list it cannot be told with which it agrees": {
		"usage --no-headers -o custom-columns=F:.free,A:.causes.alignment", gpuClass + nodeWith("m", "{name: a, attributes: {root: {ints: [1]}}}, {name: b, attributes: {root: {int: 2}}}") +
			claimOf("c", gpuPair+", constraints: [{matchAttribute: gpu.example.com/root}]", ""),
		cli.ExitOK, "1 1", "",
	},
	"the alternative that needs fewest devices is enough": {
		"usage --no-headers -o custom-columns=F:.free,A:.causes.alignment", gpuClass + nodeWith("m", "{name: a, attributes: {root: {int: 1}}}, {name: b, attributes: {root: {int: 1}}}") +
			claimOf("c", "requests: [{name: r, firstAvailable: [{name: four, deviceClassName: gpu, count: 4}, {name: two, deviceClassName: gpu, count: 2}]}], constraints: [{matchAttribute: gpu.example.com/root}]", ""),
		cli.ExitOK, "2 <none>", "",
	},
	"a constraint on an alternative is one on its request": {
		"usage --no-headers -o custom-columns=F:.free,A:.causes.alignment", gpuClass + nodeWith("m", "{name: a, attributes: {root: {int: 1}}}") +
			claimOf("c", "requests: [{name: r, firstAvailable: [{name: two, deviceClassName: gpu, count: 2}]}], constraints: [{matchAttribute: gpu.example.com/root, requests: [r/two]}]", ""),
		cli.ExitOK, "0 1", "",
	},
}

// Explanations, placements and usage are right where two rules meet.
func TestParticularsOfPairs(t *testing.T) {
	for name, test := range meeting {
		out, status := runStatus(test.manifest, append(append([]string{"dray"}, strings.Fields(test.command)...), "-f", "-")...)
		flat := strings.Join(strings.Fields(out), " ")
		if status != test.status || !strings.Contains(flat, test.want) || test.absent != "" && strings.Contains(flat, test.absent) {
			t.Errorf("%s: status %d, want %d, %q and not %q in\n%s", name, status, test.status, test.want, test.absent, out)
		}
	}
}
