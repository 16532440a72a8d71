// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// particulars are nodes of one driver: a has two GPUs, one of which is in use by four pods, b has a share of a NIC in use.
const particulars = `
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {zone: x}}, status: {allocatable: {cpu: "4", example.com/fpga: "2"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {zone: w}}, status: {allocatable: {cpu: "4"}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: nic}, spec: {selectors: [{cel: {expression: device.driver == "nic.example.com"}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: g0, attributes: {root: {string: r0}}}, {name: g1, attributes: {root: {string: r1}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b}
spec:
  driver: nic.example.com
  nodeName: b
  pool: {name: b, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: n0, allowMultipleAllocations: true, capacity: {bandwidth: {value: 10, requestPolicy: {default: 4, validRange: {min: 1}}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: held, namespace: ml, uid: u1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: g0}]}}
  reservedFor: [{resource: pods, name: p0, uid: p0}, {resource: pods, name: p1, uid: p1}, {resource: pods, name: p2, uid: p2}, {resource: pods, name: p3, uid: p3}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, namespace: ml, uid: u2}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic, capacity: {requests: {bandwidth: 8}}}}]}}
status: {allocation: {devices: {results: [{request: r, driver: nic.example.com, pool: b, device: n0, shareID: 7e3c1a2b-0000-4000-8000-000000000001, consumedCapacity: {bandwidth: 8}}]}}}
`

// wanting is a pod of namespace ml, and the claim that it has made.
func wanting(name, requests, more string) string {
	return fmt.Sprintf(`
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: %[1]s, namespace: ml}, spec: {spec: {devices: {requests: [%[2]s]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, namespace: ml}, spec: {%[3]s containers: [{name: c, image: i}], resourceClaims: [{name: d, resourceClaimTemplateName: %[1]s}]}}
`, name, requests, more)
}

// manyWanting are pods that want the same.
func manyWanting(n int) string {
	text := ""
	for i := range n {
		text += wanting(fmt.Sprintf("w%d", i), twoGPUs, "")
	}
	return text
}

// particular is what a command is to say of a manifest beside particulars, and what not.
type particular struct {
	command, manifest string
	status            int
	want, absent      string
}

// sevenZones are nodes without devices.
func sevenZones() string {
	zones := ""
	for i := range 7 {
		zones += fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: z%d, labels: {zone: z%d}}}\n", i, i)
	}
	return zones
}

const twoGPUs, nic = "{name: r, exactly: {deviceClassName: gpu, count: 2}}", "{name: r, exactly: {deviceClassName: nic}}"

var lessUsual = map[string]particular{
	"a device has more pods than are named": {
		"explain pod/w", wanting("w", twoGPUs, ""), cli.ExitNotPlaced, "1 in use: 1 by ml/p0 ml/p1 ml/p2 and 1 other pod", "ml/p3",
	},
	"what is left of a shared device": {
		"explain pod/w --node b", wanting("w", nic, ""), cli.ExitNotPlaced, "bandwidth of n0: 4 by default, 2 of 10 is left", "",
	},
	"a shared device is nobody's alone": {
		"explain pod/w --node b", `
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: whole}, spec: {driver: nic.example.com, nodeName: b, pool: {name: whole, generation: 1, resourceSliceCount: 1}, devices: [{name: n1, capacity: {bandwidth: {value: 10}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: whole, namespace: ml, uid: u4}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic}}]}}
status: {allocation: {devices: {results: [{request: r, driver: nic.example.com, pool: whole, device: n1}]}}}
` + wanting("w", "{name: r, exactly: {deviceClassName: nic, count: 2, capacity: {requests: {bandwidth: 2}}}}", ""),
		cli.ExitNotPlaced, "1 in use: 1 by claim ml/whole", "ml/shared",
	},
	"values beyond the first four are counted": {
		"explain pod/w", sevenZones() + wanting("w", nic, "nodeSelector: {zone: none},"), cli.ExitNotPlaced, "something else (5)", "",
	},
	"a pod names one claim twice": {
		"allocate -o wide", `
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one, namespace: ml}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: w, namespace: ml}, spec: {containers: [{name: c, image: i}], resourceClaims: [{name: d, resourceClaimName: one}, {name: e, resourceClaimName: one}]}}
`, cli.ExitOK, "1 of 1 pod placed", "",
	},
	"pods with the same reasons are all named": {
		"explain -A -o wide", manyWanting(9),
		cli.ExitNotPlaced, "ml/w1, ml/w2, ml/w3, ml/w4, ml/w5, ml/w6, ml/w7, ml/w8)", "…",
	},
	"one of all that is pending is a list": {
		"explain -A -o jsonpath={.kind}", wanting("w", twoGPUs, ""), cli.ExitNotPlaced, "ExplanationList", "",
	},
	"what was asked for by name is no list": {
		"explain pod/w -o jsonpath={.kind}", wanting("w", twoGPUs, ""), cli.ExitNotPlaced, "Explanation", "List",
	},
	"a slice for a node that does not exist is told once": {
		"explain pod/w", `
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s0}, spec: {driver: gpu.example.com, nodeName: gone, pool: {name: gone, generation: 1, resourceSliceCount: 2}, devices: [{name: d0}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s1}, spec: {driver: gpu.example.com, nodeName: gone, pool: {name: gone, generation: 1, resourceSliceCount: 2}, devices: [{name: d1}]}}
` + wanting("w", twoGPUs, ""), cli.ExitNotPlaced, "ResourceSlice s0 of driver gpu.example.com is for node gone", "ResourceSlice s1",
	},
	"a request is not raised to its limit": {
		"explain pod/w", strings.Replace(wanting("w", "{name: r, exactly: {deviceClassName: gpu}}", ""), "image: i}", "image: i, resources: {requests: {cpu: 1}, limits: {cpu: 9}}}", 1),
		cli.ExitOK, "can be placed", "too little cpu",
	},
	"a tolerated taint of an alternative": {
		"explain pod/w", `
---
{apiVersion: v1, kind: Node, metadata: {name: c}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: c}, spec: {driver: gpu.example.com, nodeName: c, pool: {name: c, generation: 1, resourceSliceCount: 1}, devices: [{name: g, taints: [{key: k, value: v, effect: NoSchedule}]}]}}
` + wanting("w", "{name: r, firstAvailable: [{name: s, deviceClassName: gpu, tolerations: [{key: k, value: v}]}]}", "nodeName: '',"), cli.ExitOK, "3 nodes; the first is", "",
	},
	"who may have admin access is asked once for a namespace": {
		"explain pod/w", wanting("w", "{name: r, exactly: {deviceClassName: gpu, adminAccess: true}}", "") + wanting("v", "{name: r, exactly: {deviceClassName: gpu, adminAccess: true}}", ""),
		cli.ExitOK, "ResourceClaimTemplate ml/w: adminAccess: Namespace ml was not read", "ResourceClaimTemplate ml/v: adminAccess",
	},
	"a server has granted admin access": {
		"explain pod/w", strings.Replace(wanting("w", "{name: r, exactly: {deviceClassName: gpu, adminAccess: true}}", ""), "name: w, namespace: ml}, spec: {spec", "name: w, namespace: ml, uid: u}, spec: {spec", 1),
		cli.ExitOK, "can be placed", "was not read",
	},
	"an error counts for more than a pod without a place": {
		"explain -A", wanting("v", "{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].none == 1'}}]}}", "") + wanting("w", "{name: r, exactly: {deviceClassName: gpu, count: 3}}", ""),
		cli.ExitError, "no such key: none", "",
	},
	"an error counts for more than a pod without a place before": {
		"explain -A", wanting("v", "{name: r, exactly: {deviceClassName: gpu, count: 3}}", "") + wanting("w", "{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].none == 1'}}]}}", ""),
		cli.ExitError, "no such key: none", "",
	},
	"a group may have constraints that name no topology": {
		"allocate", "---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: ml}, spec: {schedulingConstraints: {topology: []}, schedulingPolicy: {gang: {minCount: 1}}}}\n" +
			wanting("w", "{name: r, exactly: {deviceClassName: gpu}}", "schedulingGroup: {podGroupName: g},"),
		cli.ExitOK, "1 of 1 pod placed", "",
	},
	"a kind that is of no use is no mistake": {
		"explain pod/w", "---\n{apiVersion: resources.k8s.io/v1, kind: ResourcePoolStatusRequest, metadata: {name: r}}\n" + wanting("w", twoGPUs, ""), cli.ExitNotPlaced, "is not placed", "did you mean",
	},
	"taints that end pods strand devices": {
		"usage", "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: t}, spec: {driver: gpu.example.com, nodeName: b, pool: {name: t, generation: 1, resourceSliceCount: 1}, devices: [{name: g, taints: [{key: k, effect: NoExecute}]}]}}\n",
		cli.ExitOK, "taints (1)", "",
	},
	"a namespace that shares a device with itself": {
		"usage --by namespace --no-headers", `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: also, namespace: ml, uid: u3}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic}}]}}
status: {allocation: {devices: {results: [{request: r, driver: nic.example.com, pool: b, device: n0, shareID: 7e3c1a2b-0000-4000-8000-000000000002, consumedCapacity: {bandwidth: 1}}]}}}
`, cli.ExitOK, "ml     2  2  0", "",
	},
	"a taint of a rule for another pool": {
		"explain pod/w --node a", `
---
{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: here}, spec: {deviceSelector: {pool: a}, taint: {key: k, effect: NoSchedule}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: there}, spec: {deviceSelector: {pool: b}, taint: {key: k, effect: NoSchedule}}}
` + wanting("w", twoGPUs, ""), cli.ExitNotPlaced, "from DeviceTaintRule here", "there",
	},
}

// The command line's messages about rare cases are right.
func TestParticulars(t *testing.T) {
	for name, test := range lessUsual {
		out, status := runStatus(particulars+test.manifest, append(append([]string{"dray"}, strings.Fields(test.command)...), "-f", "-")...)
		flat := strings.Join(strings.Fields(out), " ")
		want := strings.Join(strings.Fields(test.want), " ")
		if status != test.status || !strings.Contains(flat, want) || test.absent != "" && strings.Contains(flat, test.absent) {
			t.Errorf("%s: status %d, want %d, %q and not %q in\n%s", name, status, test.status, test.want, test.absent, out)
		}
	}
}
