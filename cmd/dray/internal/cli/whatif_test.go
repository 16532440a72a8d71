// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// contended is a node whose four GPUs are held by two pods of low priority and one of high
// priority, with a pod of middle priority that wants two, and one that no feature allows.
const contended = nodeWithGPUs + `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: low-0, namespace: default, uid: low-0}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]}}
status:
  allocation: {devices: {results: [{request: gpus, driver: gpu.example.com, pool: a, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: low-0, uid: low-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: low-1, namespace: default, uid: low-1}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]}}
status:
  allocation: {devices: {results: [{request: gpus, driver: gpu.example.com, pool: a, device: gpu-1}]}}
  reservedFor: [{resource: pods, name: low-1, uid: low-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: high, namespace: default, uid: high}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}
status:
  allocation: {devices: {results: [{request: gpus, driver: gpu.example.com, pool: a, device: gpu-2}, {request: gpus, driver: gpu.example.com, pool: a, device: gpu-3}]}}
  reservedFor: [{resource: pods, name: high, uid: high}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: two, namespace: default}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: either, namespace: default}
spec: {devices: {requests: [{name: gpus, firstAvailable: [{name: one, deviceClassName: gpu}]}]}}
` + podsOfContended

const podsOfContended = `---
apiVersion: v1
kind: Pod
metadata: {name: low-0, namespace: default, uid: low-0}
spec: {nodeName: a, priority: 1, containers: [{name: main, image: x}], resourceClaims: [{name: gpus, resourceClaimName: low-0}]}
---
apiVersion: v1
kind: Pod
metadata: {name: low-1, namespace: default, uid: low-1}
spec: {nodeName: a, priority: 1, containers: [{name: main, image: x}], resourceClaims: [{name: gpus, resourceClaimName: low-1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: high, namespace: default, uid: high}
spec: {nodeName: a, priority: 100, containers: [{name: main, image: x}], resourceClaims: [{name: gpus, resourceClaimName: high}]}
---
apiVersion: v1
kind: Pod
metadata: {name: middle, namespace: default}
spec: {priority: 10, containers: [{name: main, image: x}], resourceClaims: [{name: gpus, resourceClaimName: two}]}
---
apiVersion: v1
kind: Pod
metadata: {name: prioritized, namespace: default}
spec: {priority: 1, containers: [{name: main, image: x}], resourceClaims: [{name: gpus, resourceClaimName: either}]}
`

func TestSimulateWhatIf(t *testing.T) {
	for _, test := range []struct{ command, want string }{
		{"dray simulate victims middle", "a     2     yes    default/low-0,default/low-1"},
		// One pod less goes, but it is of a higher priority.
		{"dray simulate victims middle --any-priority", "a     2     yes    default/low-0,default/low-1"},
		{"dray simulate victims middle -o jsonpath={.items[0].victims[1]}", "default/low-1"},
		{"dray simulate victims prioritized", "default/prioritized fits on no node if pods of lower priority than its own (1) go, but on a if pods of the same or a higher priority went: see --any-priority\n"},
		{"dray simulate victims prioritized --any-priority", "a     1     yes    default/low-0"},
		{"dray simulate victims high", "want a pod that has no node"},
		{"dray simulate victims nobody", "Pod default/nobody does not exist"},
		// The claim is named by the pod: others like it would share it, up to the limit of those who use a claim.
		{"dray simulate what-if --add a=2", "default/prioritized  1        0         256 "},
		{"dray simulate what-if --add a=1 --taint example.com/broken:NoSchedule --node a", "default/prioritized  1        0         256 "},
		{"dray simulate what-if --remove a", "default/middle       1        0         0 "},
		{"dray simulate what-if --remove x", "error: --remove: node x does not exist"},
		{"dray simulate what-if --add x=1", "error: --add: node x does not exist"},
		{"dray simulate what-if --add a=-1", "error: --add: a=-1 is negative"},
		{"dray simulate what-if --taint broken --node a", `error: --taint: "broken": want KEY[=VALUE]:EFFECT`},
		{"dray simulate what-if --taint broken:Never --node a", `error: --taint: "broken:Never": unknown effect "Never"`},
		{"dray simulate what-if --taint broken:NoSchedule", "error: --taint: say which devices"},
		{"dray simulate what-if --taint broken:NoSchedule --driver x", "error: --taint: there is no such device"},
		{"dray simulate what-if --taint broken:NoSchedule --node x", "error: --node: node x does not exist"},
		{"dray simulate what-if --pool a", "error: --driver, --pool, --device and --node choose what to taint: --taint is missing"},
		// A pod that cannot be asked about does not keep the others from an answer.
		{"dray simulate what-if --feature-gates DRAPrioritizedList=false", "warning: left out: pod default/prioritized: "},
		{"dray simulate what-if --feature-gates DRAPrioritizedList=false", "default/middle  1        0         0 "},
	} {
		out := run(contended, append(strings.Fields(test.command), "-f", "-")...)
		if !strings.Contains(out, test.want) {
			t.Errorf("%s: %q is not part of:\n%s", test.command, test.want, out)
		}
	}
}

// Pods that come before a pod are placed first, as by dray explain, and stay.
func TestVictimsAfterPodsBefore(t *testing.T) {
	pod := func(name string, priority, gpus int) string {
		return fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: %d}}]}}}\n"+
			"---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {priority: %d, containers: [{name: c, image: x}], resourceClaims: [{name: g, resourceClaimName: %s}]}}\n", name, gpus, name, priority, name)
	}
	const before = "looked at after placing the 1 pod before it; --alone leaves them out\n"
	manifest := nodeWithGPUs + pod("first", 9, 3) + pod("second", 5, 2) + pod("huge", 1, 9)
	for _, test := range []struct {
		command, want string
		status        int
	}{
		{"dray explain second", "Looked at after placing the 1 workload before it; --alone leaves them out.", cli.ExitNotPlaced},
		{"dray simulate victims second", before, cli.ExitNotPlaced},
		{"dray simulate victims second", "default/second fits on no node if pods of lower priority than its own (5) go, nor if others went\n", cli.ExitNotPlaced},
		{"dray explain second --alone", "can be placed", cli.ExitOK},
		{"dray simulate victims second -o jsonpath={.placedBefore}", "\n1\n", cli.ExitNotPlaced},
		{"dray simulate victims second --alone", "a     0     yes    none", cli.ExitOK},
		{"dray simulate victims huge --any-priority", "default/huge fits on no node, whichever pods go\n", cli.ExitNotPlaced},
	} {
		out, status := runStatus(manifest, append(strings.Fields(test.command), "-f", "-")...)
		if !strings.Contains(out, test.want) || status != test.status {
			t.Errorf("%s: status %d, want %d; %q is not part of:\n%s", test.command, status, test.status, test.want, out)
		}
	}
}

// A group that comes before a pod is placed together, or not at all, as by dray explain.
func TestVictimsAfterGroupsBefore(t *testing.T) {
	const after = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: after}\nspec:\n  priority: -1\n  containers: [{name: main, image: x}]\n  resourceClaims: [{name: part, resourceClaimTemplateName: part}]\n"
	for _, test := range []struct {
		name             string
		gpus, pods, need int
		placed, status   int
	}{
		{"it does not fit", 1, 3, 3, 0, cli.ExitOK},
		{"it fits together only", 1, 2, 2, 2, cli.ExitNotPlaced},
		{"it needs fewer", 2, 3, 2, 2, cli.ExitNotPlaced},
		{"it leaves room", 2, 2, 1, 2, cli.ExitNotPlaced},
	} {
		out, status := runStatus(gangManifest(test.gpus, test.pods, test.need, false)+after, strings.Fields("dray simulate victims after --any-priority -f - -o jsonpath={.placedBefore}")...)
		if !slices.Contains(strings.Split(out, "\n"), fmt.Sprint(test.placed)) || status != test.status {
			t.Errorf("%s: status %d, want %d and %d pods placed before in\n%s", test.name, status, test.status, test.placed, out)
		}
	}
}

// Devices that are tainted take no pods. The pods that have them stay.
func TestSimulateTaint(t *testing.T) {
	for _, test := range []struct{ flags, want string }{
		{"--device gpu-0", "5        2         1 "},
		{"--device gpu-0 --pool a", "5        2         1 "},
		{"--device gpu-0 --pool b", "there is no such device"},
		{"--driver gpu.example.com", "5        2         0 "},
	} {
		command := "dray simulate what-if --taint example.com/broken=yes:NoExecute " + test.flags + " -f -"
		out := run(simulated, strings.Fields(command)...)
		if !strings.Contains(out, test.want) {
			t.Errorf("%s: %q is not part of:\n%s", command, test.want, out)
		}
	}
}
