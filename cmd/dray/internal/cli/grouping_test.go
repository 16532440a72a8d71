package cli_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type explained struct {
	Refusals []struct {
		Nodes   []string `json:"nodes"`
		Uniform bool     `json:"uniform"`
		Closest string   `json:"closest"`
		Summary string   `json:"summary"`
		Causes  any      `json:"causes"`
	} `json:"refusals"`
}

// What is said of a uniform group of nodes is true of each of them: it is said, too, if the
// node is the only one. What is said of another group is true of the node that it names.
func TestGroupsSayWhatIsTrueOfEachNode(t *testing.T) {
	uniform, differing := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"n1", "n2", "n3", "n4"}
		nodes := make(map[string]string)
		var others strings.Builder
		for _, name := range names {
			nodes[name] = fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s}}\n", name)
			randomDevices(t, &others, name)
		}
		others.WriteString(rapid.SampledFrom([]string{
			claimAsking(`deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["g.example.com"].model == "H100"'}}]`, ""),
			claimAsking(`deviceClassName: gpu, count: 3`, ""),
			claimAsking(`deviceClassName: gpu, count: 2`, `, constraints: [{matchAttribute: g.example.com/model}]`),
			claimAsking(`deviceClassName: gpu, capacity: {requests: {memory: 60Gi}}`, ""),
		}).Draw(t, "claim"))
		ask := func(among ...string) explained {
			manifest := others.String()
			for _, name := range among {
				manifest += nodes[name]
			}
			out, _ := runStatus(manifest, "dray", "explain", "claim/c", "-o", "json", "-f", "-")
			var answer explained
			if err := json.Unmarshal([]byte(out), &answer); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return answer
		}
		for _, group := range ask(names...).Refusals {
			for _, name := range group.Nodes {
				alone := ask(name).Refusals
				if len(alone) != 1 {
					t.Fatalf("%s alone has %d refusals", name, len(alone))
				}
				same := reflect.DeepEqual(alone[0].Causes, group.Causes) && alone[0].Summary == group.Summary
				if !same && (group.Uniform || name == group.Closest) {
					t.Fatalf("of %v (uniform %v) is said\n%+v\n%+v\nof %s alone\n%+v\n%+v", group.Nodes, group.Uniform, group.Summary, group.Causes, name, alone[0].Summary, alone[0].Causes)
				}
				if !same {
					differing++
				}
			}
			if group.Uniform && len(group.Nodes) > 1 {
				uniform++
			}
		}
	})
	if uniform == 0 || differing == 0 {
		t.Errorf("%d groups of several nodes were uniform, %d nodes differed from their group: want some of both", uniform, differing)
	}
}

// randomDevices writes the slice of a node, and claims that hold some of its devices.
func randomDevices(t *rapid.T, to *strings.Builder, node string) {
	fmt.Fprintf(to, `---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %s}
spec:
  driver: g.example.com
  nodeName: %s
  pool: {name: %s, generation: 1, resourceSliceCount: 1}
  devices:
`, node, node, node)
	var held []string
	for i := range rapid.IntRange(1, 2).Draw(t, "devices of "+node) {
		name := fmt.Sprintf("gpu-%d", i)
		fmt.Fprintf(to, "  - {name: %s, attributes: {model: {string: %s}}, capacity: {memory: {value: %s}}}\n", name,
			rapid.SampledFrom([]string{"A100", "H200"}).Draw(t, "model"), rapid.SampledFrom([]string{"40Gi", "48Gi"}).Draw(t, "memory"))
		if rapid.IntRange(0, 3).Draw(t, "held") == 0 {
			held = append(held, name)
		}
	}
	for _, device := range held {
		fmt.Fprintf(to, `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s-%s, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: g.example.com, pool: %s, device: %s}]}}}
`, node, device, node, device)
	}
}

// claimAsking is the claim default/c for one exact request, and the class that it asks for.
func claimAsking(request, rest string) string {
	return fmt.Sprintf(`---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {%s}}]%s}}
`, request, rest)
}
