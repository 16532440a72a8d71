// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
)

func clusterOf(t *testing.T, manifests ...string) *cluster.Cluster {
	t.Helper()
	objects, err := input.Read([]string{input.Stdin}, strings.NewReader(strings.Join(manifests, "\n---\n")), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(objects, cluster.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func nodeOf(name, more string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}%s}", name, more)
}

// poolOf is a pool that is there in one slice of a number of slices. at says which nodes reach it.
func poolOf(name, at string, slices int, devices string) string {
	return fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s}, spec: {driver: gpu.example.com, %[2]s, pool: {name: %[1]s, generation: 1, resourceSliceCount: %[3]d}, devices: [%[4]s]}}", name, at, slices, devices)
}

func classOf(name, expression string) string {
	return fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s}, spec: {selectors: [{cel: {expression: '%s'}}]}}", name, expression)
}

// heldBy is a claim that holds a device, for consumers.
func heldBy(namespace, name, pool, device, consumers string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %[2]s, namespace: %[1]s, uid: %[1]s-%[2]s}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: all}}]}},
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: %[3]s, device: %[4]s}]}}, reservedFor: [%[5]s]}}`, namespace, name, pool, device, consumers)
}

func claimOf(devices string) string {
	return fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: wanted, namespace: ml}, spec: {devices: {%s}}}", devices)
}

var all = classOf("all", "true")

func inspected(t *testing.T, c *cluster.Cluster) []Device {
	t.Helper()
	pools, err := c.Inventory(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Inspect(c, pools)
}

// TestStates has a device in each state, with the reason that counts if there are several.
func TestStates(t *testing.T) {
	c := clusterOf(t, all,
		nodeOf("node", ""), nodeOf("cordoned", ", spec: {unschedulable: true}"),
		poolOf("node", "nodeName: node", 1, `{name: free}, {name: held, taints: [{key: k, effect: NoSchedule}]}, {name: noted, taints: [{key: k, effect: None}]}, {name: tainted, taints: [{key: note, effect: None}, {key: k, value: v, effect: NoSchedule}]}, {name: evicting, taints: [{key: e, effect: NoExecute}]}`),
		poolOf("cordoned", "nodeName: cordoned", 1, "{name: alone}, {name: ill, taints: [{key: k, effect: NoSchedule}]}"),
		poolOf("half", "nodeName: cordoned", 2, "{name: part}"),
		poolOf("away", "nodeName: gone", 1, "{name: lost}"),
		poolOf("both", "allNodes: true", 1, "{name: fabric}"),
		"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: sets}, spec: {driver: gpu.example.com, nodeName: node, pool: {name: parts, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: set, counters: {memory: {value: 10}}}]}}",
		poolOf("parts", "nodeName: node", 2, "{name: whole, consumesCounters: [{counterSet: set, counters: {memory: {value: 8}}}]}, {name: big, consumesCounters: [{counterSet: set, counters: {memory: {value: 3}}}]}, {name: small, consumesCounters: [{counterSet: set, counters: {memory: {value: 2}}}]}"),
		poolOf("shares", "nodeName: node", 1, "{name: shared, allowMultipleAllocations: true}"),
		heldBy("ml", "a", "node", "held", ""), heldBy("ml", "b", "parts", "whole", ""), heldBy("ml", "c", "shares", "shared", ""))
	got := make(map[string]string)
	for _, d := range inspected(t, c) {
		got[d.State.Name] = fmt.Sprintf("%s %v %s: %s", d.Is, d.Shares, d.Cause, d.Detail)
	}
	want := map[string]string{
		"free": "free false : ", "held": "held false : ", "noted": "free false : ", "shared": "held true : ", "fabric": "free false : ", "whole": "held false : ", "small": "free false : ",
		"tainted":  "stranded false taints: it has the taint k=v:NoSchedule",
		"evicting": "stranded false taints: it has the taint e:NoExecute",
		"alone":    "stranded false cordoned: all nodes that reach it are cordoned",
		"ill":      "stranded false cordoned: all nodes that reach it are cordoned",
		"lost":     "stranded false no node: no node reaches the pool",
		"big":      "stranded false counters: memory of set: needs 3, 2 left",
	}
	part := got["part"]
	delete(got, "part")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if !strings.HasPrefix(part, "stranded false unusable pool: the pool cannot be used: ") {
		t.Errorf("a pool that is not complete: %s", part)
	}
}

// TestAlignment has devices that nothing can get, as all that ask for them want several that agree.
func TestAlignment(t *testing.T) {
	const pair = "requests: [{name: r, exactly: {deviceClassName: all, count: 2}}], constraints: [{matchAttribute: gpu.example.com/root}]"
	devices := "{name: a, attributes: {root: {int: 1}}}, {name: b, attributes: {root: {int: 1}}}, {name: c, attributes: {root: {int: 2}}}, {name: d}"
	odd := classOf("odd", `device.attributes["gpu.example.com"].root == 2`)
	for name, c := range map[string]struct {
		demands  []string
		stranded string // the devices, and how many are free together
	}{
		"nothing asks":                  {nil, ""},
		"a pair":                        {[]string{claimOf(pair)}, "c 1, d 0"},
		"three that agree":              {[]string{claimOf(strings.Replace(pair, "count: 2", "count: 3", 1))}, "a 2, b 2, c 1, d 0"},
		"two requests that agree":       {[]string{claimOf("requests: [{name: r, exactly: {deviceClassName: all}}, {name: s, exactly: {deviceClassName: all, count: 2}}], constraints: [{matchAttribute: gpu.example.com/root}]")}, "a 2, b 2, c 1, d 0"},
		"two requests of one":           {[]string{claimOf("requests: [{name: r, exactly: {deviceClassName: all}}, {name: s, exactly: {deviceClassName: all}}], constraints: [{matchAttribute: gpu.example.com/root}]")}, "c 1, d 0"},
		"one of two requests":           {[]string{claimOf("requests: [{name: r, exactly: {deviceClassName: all}}, {name: s, exactly: {deviceClassName: all, count: 2}}], constraints: [{requests: [s], matchAttribute: gpu.example.com/root}]")}, ""},
		"an alternative":                {[]string{claimOf("requests: [{name: r, firstAvailable: [{name: x, deviceClassName: all, count: 3}, {name: z, deviceClassName: odd}]}], constraints: [{requests: [r/x], matchAttribute: gpu.example.com/root}]")}, "d 0"},
		"distinct values":               {[]string{claimOf("requests: [{name: r, exactly: {deviceClassName: all, count: 2}}], constraints: [{distinctAttribute: gpu.example.com/root}]")}, ""},
		"a pair, or one of them":        {[]string{claimOf(pair), strings.Replace(claimOf("requests: [{name: r, exactly: {deviceClassName: all}}]"), "wanted", "one", 1)}, ""},
		"a pair, or one of another":     {[]string{claimOf(pair), strings.Replace(claimOf("requests: [{name: r, exactly: {deviceClassName: odd}}]"), "wanted", "one", 1)}, "d 0"},
		"a pair of what a class covers": {[]string{claimOf(strings.Replace(pair, "all", "odd", 1))}, "c 1"},
		"a template":                    {[]string{"{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: t, namespace: ml}, spec: {spec: {devices: {" + pair + "}}}}"}, "c 1, d 0"},
	} {
		cluster := clusterOf(t, append([]string{all, odd, nodeOf("node", ""), poolOf("node", "nodeName: node", 1, devices)}, c.demands...)...)
		var got []string
		for _, d := range inspected(t, cluster) {
			if d.Is != Stranded {
				continue
			}
			var together int
			_, end, _ := strings.Cut(d.Detail, ", of which ")
			if _, err := fmt.Sscanf(end, "%d are free together", &together); err != nil || d.Cause != Alignment {
				t.Errorf("%s: device %s: %s: %s", name, d.State.Name, d.Cause, d.Detail)
			}
			got = append(got, fmt.Sprintf("%s %d", d.State.Name, together))
		}
		if diff := cmp.Diff(c.stranded, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
	lists := clusterOf(t, all, nodeOf("node", ""), poolOf("node", "nodeName: node", 1, "{name: a, attributes: {root: {ints: [1, 2]}}}, {name: b, attributes: {root: {int: 3}}}"), claimOf(pair))
	for _, d := range inspected(t, lists) {
		if want := map[string]State{"a": Free, "b": Stranded}[d.State.Name]; d.Is != want {
			t.Errorf("device %s beside a list of values is %s, want %s", d.State.Name, d.Is, want)
		}
	}
	two := clusterOf(t, all, nodeOf("node", ""), poolOf("node", "nodeName: node", 1, "{name: a, attributes: {root: {int: 1}}}"), claimOf(pair),
		strings.Replace(claimOf(strings.NewReplacer("count: 2", "count: 4", "root", "numa").Replace(pair)), "wanted", "more", 1))
	if got, want := inspected(t, two)[0].Detail, "what asks for it wants 2 devices of one gpu.example.com/root or 4 devices of one gpu.example.com/numa, of which 1 are free together"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRows has the names of rows in order, and how many devices each has, for each value of By.
func TestRows(t *testing.T) {
	pod := func(namespace, name, owner string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s%s}}", name, namespace, owner)
	}
	consumer := func(names ...string) string {
		var list []string
		for _, name := range names {
			list = append(list, fmt.Sprintf("{resource: pods, name: %s, uid: u-%s}", name, name))
		}
		return strings.Join(list, ", ")
	}
	c := clusterOf(t, all, classOf("big", `device.attributes["gpu.example.com"].size == "big"`), nodeOf("n1", ""), nodeOf("n2", ""),
		poolOf("p1", "nodeName: n1", 1, "{name: a, attributes: {size: {string: big}}}, {name: b, attributes: {size: {string: small}}}"),
		poolOf("p2", "allNodes: true", 1, "{name: c, attributes: {size: {string: big}}}, {name: d, attributes: {size: {string: none}}}, {name: e, attributes: {size: {string: none}}}"),
		poolOf("p3", "nodeName: gone", 1, "{name: f, attributes: {gpu.example.com/size: {version: 1.0.0}}}"),
		pod("ml", "w-0", ", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: w, uid: u, controller: true}]"), pod("ml", "plain", ""),
		heldBy("ml", "xx", "p1", "a", consumer("w-0", "plain", "unknown")), heldBy("web", "yy", "p2", "c", ""),
		heldBy("web", "zz", "p2", "d", "{apiGroup: example.com, resource: things, name: t, uid: t}"))
	for by, want := range map[By]string{
		ByNamespace:           "ml 1, web 2,  3",
		ByWorkload:            "ml/pod/plain 1, ml/pod/unknown 1, ml/statefulset/w 1, web/resourceclaim/yy 1, web/things.example.com/t 1,  3",
		ByNode:                "(several nodes) 3, n1 2,  1",
		ByDriver:              "gpu.example.com 6",
		ByClass:               "all 6, big 2",
		"attribute=size":      "1.0.0 1, big 2, none 2, small 1",
		"attribute=none":      " 6",
		"attribute=x.io/size": " 6",
	} {
		report, err := Of(c, by)
		if err != nil {
			t.Fatal(err)
		}
		var rows []string
		for _, row := range report.Rows {
			rows = append(rows, fmt.Sprintf("%s %d", row.Name, row.Devices))
		}
		if diff := cmp.Diff(want, strings.Join(rows, ", ")); diff != "" || report.By != by {
			t.Errorf("%s: want -, got +\n%s", by, diff)
		}
		total := Counts{Devices: 6, Held: 3, Free: 2, Stranded: 1, Causes: map[Cause]int{NoNode: 1}}
		if diff := cmp.Diff(total, report.Total); diff != "" {
			t.Errorf("%s: total: want -, got +\n%s", by, diff)
		}
	}
}

func TestParseBy(t *testing.T) {
	for text, want := range map[string]string{
		"namespace": "", "workload": "", "node": "", "class": "", "driver": "", "attribute=model": "", "attribute=a/b=c": "",
		"attribute": `"attribute": want attribute=NAME, and a name for nothing else`, "attribute=": `"attribute=": want attribute=NAME, and a name for nothing else`,
		"node=n": `"node=n": want attribute=NAME, and a name for nothing else`, "": `"": want namespace, workload, node, class, driver or attribute=NAME`,
		"pod": `"pod": want namespace, workload, node, class, driver or attribute=NAME`,
	} {
		got, err := ParseBy(text)
		switch {
		case want == "" && (err != nil || got != By(text)):
			t.Errorf("%q: got %q, %v", text, got, err)
		case want != "" && (err == nil || err.Error() != want || got != ""):
			t.Errorf("%q: got %q, %v, want %s", text, got, err, want)
		}
	}
	if !slices.Equal(Causes(), []Cause{"unusable pool", "no node", "cordoned", "taints", "counters", "alignment"}) {
		t.Errorf("causes %q", Causes())
	}
}
