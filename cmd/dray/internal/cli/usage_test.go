// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// forUsage has a device for each cause of being of no use, and some that are held or free.
const forUsage = `
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: any}}
---
{apiVersion: v1, kind: Node, metadata: {name: a}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}}
---
{apiVersion: v1, kind: Node, metadata: {name: idle}, spec: {unschedulable: true}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: held, attributes: {model: {string: A100}, root: {string: r0}}}
  - {name: alone, attributes: {model: {string: A100}, root: {string: r0}}}
  - {name: one, attributes: {model: {string: A100}, root: {string: r1}}}
  - {name: two, attributes: {model: {string: A100}, root: {string: r1}}}
  - {name: sick, attributes: {model: {string: A100}, root: {string: r1}}, taints: [{key: sick, effect: NoSchedule}]}
  - {name: noted, attributes: {model: {string: A100}, root: {string: r1}}, taints: [{key: noted, effect: None}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b-counters}
spec:
  driver: part.example.com
  nodeName: b
  pool: {name: b, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: set, counters: {memory: {value: 80Gi}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b}
spec:
  driver: part.example.com
  nodeName: b
  pool: {name: b, generation: 1, resourceSliceCount: 2}
  devices:
  - {name: small, consumesCounters: [{counterSet: set, counters: {memory: {value: 40Gi}}}]}
  - {name: large, consumesCounters: [{counterSet: set, counters: {memory: {value: 60Gi}}}]}
  - {name: shared, allowMultipleAllocations: true, capacity: {memory: {value: 10}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: half}
spec: {driver: half.example.com, nodeName: b, pool: {name: half, generation: 1, resourceSliceCount: 2}, devices: [{name: h}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gone}
spec: {driver: gone.example.com, nodeName: nowhere, pool: {name: gone, generation: 1, resourceSliceCount: 1}, devices: [{name: g}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: idle}
spec: {driver: idle.example.com, nodeName: idle, pool: {name: idle, generation: 1, resourceSliceCount: 1}, devices: [{name: i}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec: {driver: fabric.example.com, allNodes: true, pool: {name: fabric, generation: 1, resourceSliceCount: 1}, devices: [{name: f}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine, namespace: ml, uid: u1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: held}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: small, namespace: ml, uid: u2}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}
status: {allocation: {devices: {results: [{request: r, driver: part.example.com, pool: b, device: small}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: share, namespace: ops, uid: u3}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}
status: {allocation: {devices: {results: [{request: r, driver: part.example.com, pool: b, device: shared, shareID: 7e3c1a2b-0000-4000-8000-000000000001, consumedCapacity: {memory: 4}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: share2, namespace: ml, uid: u4}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}
status: {allocation: {devices: {results: [{request: r, driver: part.example.com, pool: b, device: shared, shareID: 7e3c1a2b-0000-4000-8000-000000000002, consumedCapacity: {memory: 4}}]}}}
`

// forWorkloads has a device that two pods of a JobSet and one of a Deployment share, one of a pod that is not read, and one of no pod.
const forWorkloads = `
{apiVersion: v1, kind: Node, metadata: {name: a}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: d0}, {name: d1}, {name: d2}, {name: d3}]
---
apiVersion: v1
kind: Pod
metadata: {name: train-0, namespace: ml, uid: p0, labels: {jobset.sigs.k8s.io/jobset-name: train}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-w-0, uid: j, controller: true}]}
spec: {nodeName: a, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: c0}]}
---
apiVersion: v1
kind: Pod
metadata: {name: train-1, namespace: ml, uid: p1, labels: {jobset.sigs.k8s.io/jobset-name: train}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-w-0, uid: j, controller: true}]}
spec: {nodeName: a, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: c0}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-6f-x, namespace: ml, uid: p2, labels: {pod-template-hash: 6f}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-6f, uid: r, controller: true}]}
spec: {nodeName: a, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: c0}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c0, namespace: ml, uid: u0}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: d0}]}}
  reservedFor: [{resource: pods, name: train-0, uid: p0}, {resource: pods, name: train-1, uid: p1}, {resource: pods, name: web-6f-x, uid: p2}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c1, namespace: ml, uid: u1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: d1}]}}
  reservedFor: [{resource: pods, name: not-read, uid: p3}, {apiGroup: scheduling.k8s.io, resource: podgroups, name: not-a-pod, uid: g}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c2, namespace: ops, uid: u2}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: d2}]}}}
`

// onlyPairs has nothing but pairs of one root ask for GPUs.
var onlyPairs = strings.NewReplacer("deviceClassName: gpu}}]}}", "deviceClassName: gpu, count: 2}}], constraints: [{matchAttribute: gpu.example.com/root}]}}",
	"deviceClassName: any}", "deviceClassName: nothing}").Replace(forUsage)

func TestUsageOfDevices(t *testing.T) {
	for _, test := range []struct{ command, manifest, want string }{
		{"usage", forUsage, `
NODE             DEVICES  HELD  FREE  STRANDED  BECAUSE OF
(several nodes)  1        0     1     0         -
a                6        1     4     1         taints (1)
b                4        2     0     2         unusable pool (1), counters (1)
idle             1        0     0     1         cordoned (1)
-                1        0     0     1         no node (1)
TOTAL            13       3     5     5         unusable pool (1), no node (1),
                                                cordoned (1), taints (1),
                                                counters (1)
`},
		{"usage --by namespace", forUsage, `
NAMESPACE  DEVICES  HELD  FREE  STRANDED  BECAUSE OF
ml         3        3     0     0         -
ops        1        1     0     0         -
-          10       0     5     5         unusable pool (1), no node (1),
                                          cordoned (1), taints (1), counters (1)
TOTAL      13       3     5     5         unusable pool (1), no node (1),
                                          cordoned (1), taints (1), counters (1)
`},
		{"usage --by workload -o custom-columns=W:.name,H:.held,F:.free", forWorkloads, `
W                                         H  F
ml/deployment/web                         1  0
ml/jobset/train                           1  0
ml/pod/not-read                           1  0
ml/podgroups.scheduling.k8s.io/not-a-pod  1  0
ops/resourceclaim/c2                      1  0
<none>                                    0  1
`},
		{"usage --by class --no-headers", forUsage, `
any    13  3  5  5  unusable pool (1), no node (1), cordoned
                    (1), taints (1), counters (1)
gpu    6   1  4  1  taints (1)
TOTAL  13  3  5  5  unusable pool (1), no node (1), cordoned
                    (1), taints (1), counters (1)
`},
		{"usage --by driver -o custom-columns=D:.name,S:.stranded", forUsage, `
D                   S
fabric.example.com  0
gone.example.com    1
gpu.example.com     1
half.example.com    1
idle.example.com    1
part.example.com    1
`},
		{"usage --by attribute=model -o name", forUsage, "\nA100\n-\n"},
		{"usage --by attribute=gpu.example.com/root -o jsonpath={range.items[*]}{.name}:{.free},{end}", forUsage, "\nr0:1,r1:3,:1,\n"},
		// A name may have the domain of the driver in the manifest, in the question, in both, or in none.
		{"usage --by attribute=model -o name", strings.Replace(forUsage, "model:", "gpu.example.com/model:", 2), "\nA100\n-\n"},
		{"usage --by attribute=gpu.example.com/model -o name", strings.Replace(forUsage, "model:", "gpu.example.com/model:", 2), "\nA100\n-\n"},
		{"usage --by attribute=other.example.com/model -o name", forUsage, "\n-\n"},
		// What only pairs could use is of no use alone; one is held beside it.
		{"usage --by attribute=root -o custom-columns=R:.name,F:.free,A:.causes.alignment --no-headers", onlyPairs, "\nr0      0  1\nr1      3  <none>\n<none>  1  <none>\n"},
		{"usage -o go-template={{.total.shares}}", forUsage, "\n1\n"},
	} {
		out, status := runStatus(test.manifest, append(append([]string{"dray"}, strings.Fields(test.command)...), "-f", "-")...)
		if want := strings.TrimPrefix(test.want, "\n"); status != cli.ExitOK || out != want {
			t.Errorf("%s: status %d, got\n%s\nwant\n%s", test.command, status, out, want)
		}
	}
}

// A property by which devices cannot be counted is refused. If there is nothing to count, the output says so.
func TestUsageWithoutAnswer(t *testing.T) {
	for by, want := range map[string]string{
		"pool": `error: --by "pool": want namespace, workload, node, class, driver or attribute=NAME`, "attribute": "want attribute=NAME", "attribute=": "want attribute=NAME", "node=a": "want attribute=NAME",
	} {
		if out, status := runStatus(forUsage, "dray", "usage", "--by", by, "-f", "-"); status != cli.ExitError || !strings.Contains(out, want) {
			t.Errorf("--by %s: status %d, want %q in\n%s", by, status, want, out)
		}
	}
	if out, status := runStatus("{apiVersion: v1, kind: Node, metadata: {name: a}}", "dray", "usage", "-f", "-"); status != cli.ExitOK || out != "No devices: nothing publishes any.\n" {
		t.Errorf("without devices: status %d\n%s", status, out)
	}
}

// With any grouping, each device is held, free or stranded, for one cause.
func TestUsageAddsUp(t *testing.T) {
	atRepository(t)
	type counts struct {
		Devices, Held, Free, Stranded int
		Causes                        map[string]int
	}
	for _, example := range []string{"fleet-200", "mig-partitions", "shared-nic-bandwidth", "gpu-nic-pcie"} {
		totals := make(map[int]bool)
		for _, by := range []string{"namespace", "workload", "node", "class", "driver", "attribute=model"} {
			out, status := standardOutput("dray", "usage", "--by", by, "-o", "json", "-f", "examples/"+example)
			var report struct {
				Items []counts
				Total counts
			}
			if err := json.Unmarshal([]byte(out), &report); err != nil || status != cli.ExitOK {
				t.Fatalf("%s by %s: status %d, %v:\n%s", example, by, status, err, out)
			}
			sum := 0
			for _, c := range append(report.Items, report.Total) {
				causes := 0
				for _, n := range c.Causes {
					causes += n
				}
				if c.Held+c.Free+c.Stranded != c.Devices || causes != c.Stranded {
					t.Errorf("%s by %s: %+v does not add up", example, by, c)
				}
				sum += c.Devices
			}
			if once := by == "node" || by == "driver" || strings.HasPrefix(by, "attribute"); once && sum != 2*report.Total.Devices {
				t.Errorf("%s by %s: rows and total have %d devices, want twice %d", example, by, sum, report.Total.Devices)
			}
			totals[report.Total.Devices] = true
		}
		if len(totals) != 1 || totals[0] {
			t.Errorf("%s: totals differ: %v", example, totals)
		}
	}
}
