// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// everyState has two devices that are free, one in each other state, a whole with partitions, and a pool that both nodes reach.
const everyState = `
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {rack: r1}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {rack: r2}}, spec: {unschedulable: true}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: open, attributes: {model: {string: A100}, serial: {string: S-1}}, capacity: {memory: {value: 40Gi}}}
  - {name: taken, attributes: {model: {string: A100}}, capacity: {memory: {value: 40Gi}}}
  - {name: sick, attributes: {model: {string: A100}}, capacity: {memory: {value: 40Gi}}, taints: [{key: sick, effect: NoSchedule}]}
  - {name: divided, allowMultipleAllocations: true, attributes: {model: {string: A100}}, capacity: {memory: {value: 40Gi}}}
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
  - {name: part, attributes: {profile: {string: half}}, consumesCounters: [{counterSet: set, counters: {memory: {value: 40Gi}}}]}
  - {name: whole, attributes: {profile: {string: whole}}, consumesCounters: [{counterSet: set, counters: {memory: {value: 80Gi}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: half}
spec: {driver: half.example.com, nodeName: b, pool: {name: half, generation: 1, resourceSliceCount: 2}, devices: [{name: lost}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gone}
spec: {driver: gone.example.com, nodeName: nowhere, pool: {name: gone, generation: 1, resourceSliceCount: 1}, devices: [{name: far}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec: {driver: fabric.example.com, allNodes: true, pool: {name: fabric, generation: 1, resourceSliceCount: 1}, devices: [{name: link}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine, namespace: ml, uid: u1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {allocationTimestamp: "2026-11-05T10:20:30Z", devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: taken}]}}
  reservedFor: [{resource: pods, name: trainer-0, uid: p0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: small, namespace: ml, uid: u2}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: part.example.com, pool: b, device: part}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: share, namespace: ops, uid: u3}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: divided, shareID: 7e3c1a2b-0000-4000-8000-000000000001, consumedCapacity: {memory: 10Gi}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: waits, namespace: ml, uid: u4}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 3}}]}}
`

// keys presses keys while the map has the focus, and returns the text of what is focused then.
func (o *tab) keys(keys ...string) string {
	o.Helper()
	o.run(chromedp.Evaluate(`document.getElementById("tree").focus()`, nil))
	for _, key := range keys {
		o.run(chromedp.KeyEvent(key))
	}
	return value[string](o, `document.getElementById(document.getElementById("tree").getAttribute("aria-activedescendant"))?.textContent ?? ""`)
}

// groups are the titles of groups on the map.
func (o *tab) groups() string {
	o.Helper()
	o.keys(kb.ArrowLeft, kb.ArrowLeft, kb.Home)
	return value[string](o, `[...document.querySelectorAll("#tree [aria-level='1']")].map((i) => i.textContent).join("; ")`)
}

// differentSigns compares the signs of states in the legend by what is drawn, whatever its colour.
func (o *tab) differentSigns() {
	o.Helper()
	const signs = `[...document.querySelectorAll(".legend canvas")].map((c) => {
		const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let mask = "";
		for (let i = 3; i < d.length; i += 4) mask += d[i] > 127 ? "#" : ".";
		return mask; })`
	masks := value[[]string](o, signs)
	for i := range masks {
		for k := range i {
			differ := 0
			for at := range min(len(masks[i]), len(masks[k])) {
				if masks[i][at] != masks[k][at] {
					differ++
				}
			}
			if differ < 40 {
				o.Errorf("the signs %d and %d differ in %d pixels only", k, i, differ)
			}
		}
	}
	if len(masks) != 7 {
		o.Errorf("%d signs, want 7", len(masks))
	}
}

// The map has each state, with a sign of its own besides the colour, groups nodes by what one likes, and says what is known of a
// device to the mouse and to the keyboard.
func TestMap(t *testing.T) {
	o := open(t, serve(t, "-f", manifest(t, everyState)), 1280, 800)
	for _, text := range []string{
		"2 nodes, 9 devices", "free 2", "held 2", "shared in part 1", "blocked 1", "tainted 1", "unusable 1", "not reachable 1",
	} {
		o.untilText(".legend", text)
	}
	o.differentSigns()
	for by, want := range map[string]string{
		"kind":       "Pools that several nodes reach, or none, 2 pools; 1 × half.example.com, 1 × whole, 1 node; 4 × A100, 1 node",
		"label:rack": "Pools that several nodes reach, or none, 2 pools; rack=r1, 1 node; rack=r2, 1 node",
		"pool":       "Pools that several nodes reach, or none, 2 pools; pool fabric, 2 nodes",
	} {
		o.fill("Group by", by)
		if got := o.groups(); got != want {
			t.Errorf("by %s the groups are %q, want %q", by, got, want)
		}
	}
	o.fill("Group by", "label:rack")
	if got := o.keys(kb.ArrowLeft, kb.ArrowLeft, kb.End, kb.ArrowRight); got != "Node b, cordoned: 1 unusable, 1 held, 1 blocked" {
		t.Errorf("the node is called %q", got)
	}
	for device, want := range map[string][]string{
		"gpu.example.com/a/open":         {"State free: can be allocated now", "model = A100", "serial = S-1", "memory = 40Gi", "Node a"},
		"gpu.example.com/a/taken":        {"claim ml/mine, request r", "pod trainer-0", "since 2026-11-05 10:20:30 UTC"},
		"gpu.example.com/a/divided":      {"shared in part", "memory 30Gi of 40Gi left", "since when is not known"},
		"gpu.example.com/a/sick":         {"tainted", "sick:NoSchedule"},
		"part.example.com/b/whole":       {"blocked", "memory 40Gi of 80Gi left"},
		"half.example.com/half/lost":     {"unusable", "1 of 2"},
		"gone.example.com/gone/far":      {"not reachable", "0 nodes"},
		"fabric.example.com/fabric/link": {"free", "2 nodes a, b"},
	} {
		o.run(chromedp.Evaluate(fmt.Sprintf(`location.hash = "group=label:rack&select=" + encodeURIComponent("device/%s")`, device), nil))
		for _, text := range want {
			o.until(fmt.Sprintf(`document.querySelector(".panel").innerText.replaceAll(/\s+/g, " ").includes(%q)`, text))
		}
	}
	o.run(chromedp.Evaluate(`location.hash = "group=label:rack"`, nil))
	o.until(`document.querySelector(".panel").hidden`)
	if got := o.keys(kb.ArrowLeft, kb.ArrowLeft, kb.Home, kb.ArrowDown, kb.ArrowRight, kb.ArrowRight, kb.ArrowDown); !strings.HasPrefix(got, "Device taken, A100: held, by ml/mine") {
		t.Errorf("the device is called %q", got)
	}
	for _, text := range []string{"taken held", "A100 on a", "held by trainer-0 since 2026-11-05 10:20", "memory 40Gi", "model = A100"} {
		o.until(fmt.Sprintf(`!document.querySelector(".tip").hidden && document.querySelector(".tip").innerText.replaceAll(/\s+/g, " ").includes(%q)`, text))
	}
	o.screenshot("states")
	o.run(chromedp.Evaluate(`document.activeElement.blur()`, nil))
	o.until(`document.querySelector(".tip").hidden`)

	o.click("claim ml/waits*")
	o.untilText(".panel", "request r needs 3 devices")
	if got := o.keys(kb.ArrowLeft, kb.ArrowLeft, kb.Home, kb.ArrowDown, kb.ArrowRight); !strings.HasPrefix(got, "Node a, lit up") {
		t.Errorf("the node that comes closest is called %q", got)
	}
}

// A pod group is one entry of what waits.
func TestGroupWaits(t *testing.T) {
	o := open(t, serve(t, "-f", example("gang-halves")), 1280, 800)
	entries := value[[]string](o, `[...document.querySelectorAll(".waits > ul > li")].map((e) => e.innerText.replaceAll(/\s+/g, " "))`)
	if len(entries) != 1 || !strings.HasPrefix(entries[0], "Pod group default/trainers: 2 pods") || !strings.Contains(entries[0], "1 more pod of the group") {
		t.Errorf("the entries are %q, want one of the group", entries)
	}
}
