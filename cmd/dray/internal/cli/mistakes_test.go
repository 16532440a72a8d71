package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
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

// What has no translation is named by object and field, and is not as long as the input.
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

// What is not looked at of a pod is said once, whether it is placed or not.
func TestNotLookedAtIsSaidOnce(t *testing.T) {
	const cluster = `
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
	for node, status := range map[string]int{"node-1": 0, "another": 1} {
		for _, command := range [][]string{{"explain", "p"}, {"allocate"}} {
			out, got := runStatus(strings.ReplaceAll(cluster, "NODE", node), append(append([]string{"dray"}, command...), "-f", "-")...)
			if strings.Count(out, "Not looked at: volumes") != 1 || got != status {
				t.Errorf("%v on node %s: status %d\n%s", command, node, got, out)
			}
		}
	}
}
