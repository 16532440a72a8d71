// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

type explained struct {
	Refusals []struct {
		Nodes   []string `json:"nodes"`
		Uniform bool     `json:"uniform"`
		Closest string   `json:"closest"`
		Summary string   `json:"summary"`
		Causes  []cause  `json:"causes"`
	} `json:"refusals"`
}

type cause struct {
	Text       string `json:"text"`
	Rejections []struct {
		Text    string   `json:"text"`
		Details []string `json:"details"`
	} `json:"rejections"`
	Hints []string `json:"hints"`
}

// figures are what a group takes from the node that comes closest, details what stands behind them.
func (c *cause) figures() (figures []string, details string) {
	figures, details = []string{c.Text}, strings.Join(c.Hints, "\n")
	for _, r := range c.Rejections {
		figures = append(figures, r.Text)
		details += "\n" + strings.Join(r.Details, "\n")
	}
	return figures, details
}

// A statement about a uniform group of nodes is true of each: it is the same if the node is the only one. Of
// another group, figures are those of the named node, and values are counted on as many nodes as have them.
func TestGroupsSayWhatIsTrueOfEachNode(t *testing.T) {
	uniform, differing, summedUp := 0, 0, 0
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
			on := make(map[string]int) // of values and holders, how many nodes have them
			for _, name := range group.Nodes {
				alone := ask(name).Refusals
				if len(alone) != 1 {
					t.Fatalf("%s alone has %d refusals", name, len(alone))
				}
				same := reflect.DeepEqual(alone[0].Causes, group.Causes) && alone[0].Summary == group.Summary
				if group.Uniform && !same {
					t.Fatalf("of %v is said\n%+v\n%+v\nof %s alone\n%+v\n%+v", group.Nodes, group.Summary, group.Causes, name, alone[0].Summary, alone[0].Causes)
				}
				figures, details := alone[0].Causes[0].figures()
				if of, _ := group.Causes[0].figures(); name == group.Closest && !reflect.DeepEqual(figures, of) {
					t.Fatalf("figures of %v are %q, those of %s alone %q", group.Nodes, of, name, figures)
				}
				for _, value := range named.FindAllString(details, -1) {
					on[value]++
				}
				if !same {
					differing++
				}
			}
			_, details := group.Causes[0].figures()
			for _, match := range counted.FindAllStringSubmatch(details, -1) {
				if want := strconv.Itoa(on[match[1]]); match[2] != want {
					t.Fatalf("%s is on %s of %v, but said to be on %s: %s", match[1], want, group.Nodes, match[2], details)
				}
				summedUp++
			}
			if group.Uniform && len(group.Nodes) > 1 {
				uniform++
			}
		}
	})
	if uniform == 0 || differing == 0 || summedUp == 0 {
		t.Errorf("%d groups of several nodes were uniform, %d nodes differed from their group, %d values were counted: want some of all", uniform, differing, summedUp)
	}
}

// named is a model or a claim, counted is how many nodes are said to have it.
var (
	named   = regexp.MustCompile(`"[A-Z]\d+"|claim default/n\d-gpu-\d`)
	counted = regexp.MustCompile(`("A100"|"H200"|claim default/n\d-gpu-\d) on (\d)`)
)

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

// TestAlikeForPrograms names, at the first of several pods that are refused for the same reasons, the others. Not
// among them are claims, pods that can be placed, and a pod that finds a device in use that the others found free.
func TestAlikeForPrograms(t *testing.T) {
	input := gpuClass + nodeWith("m", "{name: g0}")
	for name, count := range map[string]int{"one": 1, "two": 2, "three": 3} {
		input += fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: %s, namespace: ml}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: %d}}]}}}}\n", name, count)
	}
	for i, template := range []string{"two", "three", "two", "three", "two", "one", "two"} {
		input += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: ml}, spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimTemplateName: %s}]}}\n", i, template)
	}
	input += claimOf("lone", gpuPair, "")
	out, status := runStatus(input, "dray", "explain", "-f", "-", "-o", "json")
	var list struct {
		Items []struct {
			Subject struct{ Kind, Name string }
			Alike   []string
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != cli.ExitNotPlaced {
		t.Fatalf("status %d, %v:\n%s", status, err, out)
	}
	got := make(map[string]string)
	for _, item := range list.Items {
		got[item.Subject.Kind+" "+item.Subject.Name] = strings.Join(item.Alike, " ")
	}
	want := map[string]string{"Pod p0": "ml/p2 ml/p4", "Pod p1": "ml/p3", "Pod p2": "", "Pod p3": "", "Pod p4": "", "Pod p5": "", "Pod p6": "", "ResourceClaim lone": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}
