// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The first screen explains itself, and has what there is by role.
func TestFirstScreen(t *testing.T) {
	o := open(t, serve(t, "-f", example("fleet-200")), 1280, 800)
	for _, element := range [][2]string{
		{"heading", "Dray"}, {"heading", "What waits"}, {"tree", "Cluster map"}, {"list", "States of devices"}, {"combobox", "Group by"}, {"searchbox", "Find"},
		{"button", "Map"}, {"button", "Usage"}, {"button", "What if"}, {"button", "Zoom in"}, {"button", "Zoom out"}, {"button", "Fit all"}, {"region", "What waits"},
	} {
		if n := len(o.byRole(element[0], element[1])); n != 1 {
			t.Errorf("%s %q: %d of them, want 1", element[0], element[1], n)
		}
	}
	o.untilText(".legend", "200 nodes")
	for _, text := range []string{"1,640 devices", "free 764", "held 876"} {
		o.untilText(".legend", text)
	}
	o.untilText(".waits", "18 pods and claims: 1 without a place, 17 can be placed")
	o.untilText(".help", "Each box is a node, each cell a device.")
	o.untilText(".status", "as read once")
	o.screenshot("map")
}

// What waits has the explanation of dray explain; nodes in it lead to nodes, devices to devices; the address holds what is
// looked at.
func TestWalk(t *testing.T) {
	address := serve(t, "-f", example("fleet-200"))
	o := open(t, address, 1280, 800)
	o.click("training/pretrain-0*")
	o.untilText(".panel", "request gpu needs 4 devices; 6 of 12 that reach the node can serve it")
	o.untilText(".panel", "Nearest miss: 4 candidates must agree in gpu.example.com/numa, at most 3 do")
	explained, _ := exec.Command(binary, "explain", "pretrain-0", "-n", "training", "-f", example("fleet-200"), "-o", "json").Output()
	if !strings.Contains(string(explained), "at most 3 do") {
		t.Errorf("dray explain says something else: %s", explained)
	}
	o.screenshot("waiting")
	link := value[string](o, "location.href")
	if strings.Contains(link, "token") || !strings.Contains(link, "select=wait") {
		t.Errorf("the address is %s: want what is selected, and no token", link)
	}
	o.click("h100-008")
	o.untilText(".panel h2", "Node h100-008")
	o.click("gpu-0")
	o.untilText(".panel h2", "Device gpu-0")
	o.untilText(".panel", "GPU-h100-008-0")
	o.untilText(".panel", "claim running/job-")

	again := open(t, link, 1280, 800) // the cookie is there
	again.untilText(".panel", "Nearest miss")
	again.click("Close details")
	again.until(`document.querySelector(".panel").hidden`)
	again.fill("Group by", "label:topology.kubernetes.io/zone")
	again.until(`location.hash.includes("group=label")`)
	again.fill("Find", "h100-04")
	again.until(`location.hash.includes("find=h100-04")`)
	again.screenshot("found")
}

// Usage has the figures of dray usage, as a table, served and in a file; the address holds by what is counted; nodes lead to the map.
func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "view.html")
	if out, err := exec.Command(binary, "view", "-f", example("fleet-200"), "-o", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	served := serve(t, "-f", example("fleet-200"))
	var o *tab
	for _, address := range []string{"file://" + file, served} {
		o = open(t, address, 1280, 800)
		o.click("Usage")
		for by, label := range map[string]string{"workload": "workload", "class": "device class", "driver": "driver", "attribute=model": "attribute model", "namespace": "namespace"} {
			o.fill("Count by", by)
			if got := value[string](o, `document.getElementById("by").selectedOptions[0]?.innerText ?? ""`); got != label {
				t.Errorf("by %s is called %q, want %q", by, got, label)
			}
			o.sameTable(usageOf(t, by))
		}
		if address != served {
			o.run(chromedp.Evaluate(`location.hash = "tab=usage&by=attribute%3Dno-such"`, nil))
			o.untilText(".usage", "The file does not have this: dray usage --by attribute=no-such")
		}
	}
	if n := len(o.byRole("region", "Usage")); n != 1 {
		t.Errorf("%d regions Usage, want 1", n)
	}
	o.fill("Count by", "class")
	o.until(`document.querySelector(".usage th").innerText === "device class" && document.querySelectorAll(".usage .bar .stranded").length > 0`)
	if !value[bool](o, `document.querySelector(".usage").tabIndex === 0`) {
		t.Error("the keyboard cannot scroll through the figures")
	}
	o.screenshot("usage")
	again := open(t, value[string](o, "location.href"), 1280, 800) // the cookie is there
	again.sameTable(usageOf(t, "class"))
	again.fill("Count by", "node")
	again.sameTable(usageOf(t, "node"))
	again.click("h100-008")
	again.untilText(".panel h2", "Node h100-008")
	again.until(`document.querySelector(".usage").hidden && !document.querySelector(".maps").hidden`)
}

// usageOf is what dray usage says, with the row of all first: names, and four figures each.
func usageOf(t *testing.T, by string) [][]string {
	t.Helper()
	out, err := exec.Command(binary, "usage", "-f", example("fleet-200"), "--by", by, "-o", "json").Output()
	if err != nil {
		t.Fatalf("dray usage --by %s: %v", by, err)
	}
	type counts struct {
		Name                          string
		Devices, Held, Free, Stranded int
	}
	var report struct {
		Items []counts
		Total counts
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	report.Total.Name = "All"
	var rows [][]string
	for _, c := range append([]counts{report.Total}, report.Items...) {
		if c.Name == "" {
			c.Name = map[bool]string{true: "nobody", false: "none"}[by == "namespace" || by == "workload"]
		}
		rows = append(rows, []string{c.Name, strconv.Itoa(c.Devices), strconv.Itoa(c.Held), strconv.Itoa(c.Free), strconv.Itoa(c.Stranded)})
	}
	return rows
}

// sameTable waits until usage shows these rows, those of so many as it shows.
func (o *tab) sameTable(want [][]string) {
	o.Helper()
	const most = 501
	encoded, err := json.Marshal(want[:min(most, len(want))])
	if err != nil {
		o.Fatal(err)
	}
	o.until(fmt.Sprintf(`JSON.stringify([...document.querySelectorAll(".usage tbody tr")].map((r) =>
		[r.cells[0].innerText.split("\n")[0].trim(), ...[...r.cells].slice(1).map((c) => c.innerText.replaceAll(",", ""))])) === %q`, encoded))
	if more := len(want) - most; more > 0 {
		o.untilText(".usage", fmt.Sprintf("and %d more", more))
	}
}

// What the mouse is over is named, and a click shows it.
func TestMouse(t *testing.T) {
	o := open(t, serve(t, "-f", example("mig-partitions")), 1280, 800)
	where := value[[]float64](o, `(() => { const r = document.querySelector("figure.main canvas").getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()`)
	found := false
	for y := where[1] + 60; y < where[1]+where[3] && !found; y += 20 {
		for x := where[0] + where[2]/4; x < where[0]+where[2] && !found; x += 20 {
			o.run(chromedp.MouseEvent("mouseMoved", x, y))
			if strings.Contains(value[string](o, `document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").innerText`), "1g-10gb") {
				found = true
				o.run(chromedp.MouseClickXY(x, y))
			}
		}
	}
	if !found {
		t.Fatal("the mouse finds no partition")
	}
	o.untilText(".panel h2", "Device gpu-")
	o.untilText(".panel", "slices 7 of 7 left")
	o.screenshot("partitions")
}

// The map is walked through with the keyboard alone.
func TestKeyboard(t *testing.T) {
	o := open(t, serve(t, "-f", example("mig-partitions")), 1280, 800)
	o.until(`document.activeElement === document.body`)
	o.tabTo("Cluster map")
	step := func(key, want string) {
		t.Helper()
		if text := o.keys(key); !strings.Contains(text, want) {
			t.Fatalf("the focus is on %q, want %q", text, want)
		}
	}
	step(kb.Home, "1 node")
	step(kb.ArrowRight, "Node mig-1")
	step(kb.ArrowRight, "Device gpu-0-1g-10gb-0, 1g.10gb: free")
	step(kb.ArrowDown, "Device gpu-0-1g-10gb-1")
	step(kb.End, "Device gpu-1")
	step(kb.ArrowLeft, "Node mig-1")
	o.run(chromedp.KeyEvent(kb.Enter))
	o.untilText(".panel h2", "Node mig-1")
	o.focusOn("Node mig-1")
	o.run(chromedp.KeyEvent(kb.Escape))
	o.until(`document.querySelector(".panel").hidden`)
	o.focusOn("Cluster map")
}

// What waits, the figures and what-ifs are used with the keyboard alone; the focus goes where something opens, and back.
func TestKeyboardElsewhere(t *testing.T) {
	o := open(t, serve(t, "-f", example("fleet-200")), 1280, 800)
	o.tabTo("training/pretrain-0")
	o.run(chromedp.KeyEvent(kb.Enter))
	o.untilText(".panel", "at most 3 do")
	o.focusOn("Pod training/pretrain-0")
	o.tabTo("h100-008")
	o.run(chromedp.KeyEvent(kb.Enter))
	o.untilText(".panel h2", "Node h100-008")
	o.focusOn("Node h100-008")
	o.run(chromedp.KeyEvent(kb.Escape))
	o.until(`document.querySelector(".panel").hidden`)
	o.focusOn("Cluster map")

	o.tabTo("Usage")
	o.run(chromedp.KeyEvent(" "))
	o.tabTo("by")
	o.run(chromedp.KeyEvent(kb.ArrowDown))
	o.sameTable(usageOf(t, "workload"))
	o.focusOn("by")

	o.tabTo("What if")
	o.run(chromedp.KeyEvent(kb.Enter))
	o.tabTo("ask-kind")
	o.run(chromedp.KeyEvent(kb.ArrowDown))
	o.tabTo("ask-node")
	o.run(chromedp.KeyEvent("h100-001"), chromedp.KeyEvent(kb.Escape)) // closes the list of names
	o.tabTo("Try")
	o.run(chromedp.KeyEvent(kb.Enter))
	o.untilText(".whatif [role=status]", "kubectl cordon h100-001")
	o.tabTo("Back to what is")
	o.run(chromedp.KeyEvent(kb.Enter))
	o.until(`document.querySelectorAll("figure canvas").length === 1`)
}

// focused is what has the focus: its label, text or id.
const focused = `(document.activeElement.getAttribute("aria-label") ?? document.activeElement.querySelector("bdi")?.parentElement.innerText ?? (document.activeElement.innerText.split("\n")[0] || document.activeElement.id))`

// tabTo goes to an element by the tabulator, as somebody without a mouse does.
func (o *tab) tabTo(name string) {
	o.Helper()
	var seen []string
	for range 120 {
		o.run(chromedp.KeyEvent(kb.Tab))
		text := value[string](o, `document.activeElement.matches("input, select, textarea") ? document.activeElement.id : `+focused)
		if text == name {
			if !value[bool](o, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
				o.Errorf("%s has the focus, and nobody sees it", name)
			}
			return
		}
		seen = append(seen, text)
	}
	o.Fatalf("the tabulator does not come to %q, but to %q", name, seen)
}

// focusOn waits until something has the focus.
func (o *tab) focusOn(name string) {
	o.Helper()
	o.until(fmt.Sprintf(`(document.activeElement.matches("input, select, textarea") ? document.activeElement.id : %s) === %q`, focused, name))
}

// What ifs answer before and after, with the command that does the same, and the errors of the command line.
func TestWhatIf(t *testing.T) {
	files := example("fleet-200")
	o := open(t, serve(t, "-f", files), 1280, 800)
	try := func(kind string, fields map[string]string, want ...string) {
		t.Helper()
		o.click("What if")
		o.fill("Change", kind)
		for label, text := range fields {
			o.fill(label, text)
		}
		o.click("Try")
		o.until(`!document.querySelector(".whatif [role=status]").innerText.includes("Trying")`)
		for _, text := range want {
			o.untilText(".whatif [role=status]", text)
		}
	}
	try("taint", map[string]string{"Node (empty for any)": "h100-001"}, "Before and after", "tainted\t0\t", "dray simulate what-if --taint example.com/broken:NoSchedule --node h100-001 -f "+files)
	if n := value[int](o, `document.querySelectorAll("figure canvas").length`); n != 2 {
		t.Errorf("%d maps, want before and after", n)
	}
	o.screenshot("whatif")
	try("cordon", map[string]string{"Node": "h100-001"}, "kubectl cordon h100-001")
	try("drain", map[string]string{"Node": "h100-001"}, "dray simulate drain h100-001")
	try("add", map[string]string{"Node that they are like": "h100-001", "How many": "2"}, "nodes\t200\t202", "waiting without a place\t1\t0", "dray simulate what-if --add h100-001=2")
	try("remove", map[string]string{"Pod, NAMESPACE/NAME": "training/pretrain-0"}, "waiting without a place\t1\t0", "kubectl delete pod pretrain-0 -n training")
	wrong := "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {wrong: 1}\n"
	try("yaml", map[string]string{"Manifests (YAML)": wrong}, "That is not possible")
	command := exec.Command(binary, "allocate", "-f", "-")
	command.Stdin = strings.NewReader(wrong)
	said, _ := command.CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if text, isError := strings.CutPrefix(strings.TrimSpace(line), "error: "); isError {
			o.untilText(".whatif [role=status]", text)
		}
	}
	try("cordon", map[string]string{"Node": "no-such"}, "node no-such does not exist")
	o.click("Back to what is")
	o.until(`document.querySelectorAll("figure canvas").length === 1`)

	// By click on what is meant: the form has it, and asks for nothing more.
	for key, act := range map[string][2]string{
		"node/h100-001":                         {"it is drained", "dray simulate drain h100-001"},
		"device/gpu.example.com/h100-001/gpu-0": {"What if it is tainted?", "--driver gpu.example.com --pool h100-001 --device gpu-0"},
		"wait/Pod/training/pretrain-0":          {"What if it goes?", "kubectl delete pod pretrain-0 -n training"},
	} {
		o.run(chromedp.Evaluate(fmt.Sprintf(`location.hash = "select=" + encodeURIComponent(%q)`, key), nil))
		o.until(fmt.Sprintf(`[...document.querySelectorAll(".panel button")].some((b) => b.innerText === %q)`, act[0]))
		o.click(act[0])
		o.click("Try")
		o.untilText(".whatif [role=status]", act[1])
	}
}

// Templates are the files of the examples, and are answered as those are.
func TestTemplates(t *testing.T) {
	o := open(t, serve(t, "-f", example("single-gpu/cluster.yaml")), 1280, 800)
	o.click("What if")
	o.fill("Change", "yaml")
	for title, file := range map[string]string{
		"a GPU, any or a large one": "single-gpu/workload.yaml", "a GPU and a NIC of one PCIe root": "gpu-nic-pcie/workload.yaml", "partitions of a GPU": "mig-partitions/claims.yaml",
		"a share of a NIC's bandwidth": "shared-nic-bandwidth/workload.yaml", "the best GPU, or a second or third choice": "prioritized-fallback/workload.yaml",
		"a claim that several pods share": "network-attached-zones/workload.yaml", "pods that start together": "gang-halves/pods.yaml",
	} {
		o.fill("Begin with", title)
		want, err := os.ReadFile(example(file))
		if err != nil {
			t.Fatal(err)
		}
		if got := value[string](o, `document.getElementById("ask-yaml").value`); got != string(want) {
			t.Errorf("%s is\n%s\nwant examples/%s", title, got, file)
		}
	}
	if n := value[int](o, `document.getElementById("ask-template").options.length`); n != 8 {
		t.Errorf("%d templates and none, want 8", n)
	}
	o.fill("Begin with", "a GPU, any or a large one")
	o.click("Try")
	o.untilText(".whatif [role=status]", "waiting that can be placed\t0\t2")
	o.fill("Begin with", "partitions of a GPU")
	o.click("Try")
	o.untilText(".whatif [role=status]", "waiting without a place\t0\t4")
}

// Nothing of the cluster becomes markup, ends an element, or turns text around.
const hostile = `apiVersion: v1
kind: Node
metadata: {name: "<img src=x onerror=alert(1)>", labels: {rack: "</script><script>alert(2)</script>"}}
---
apiVersion: v1
kind: Node
metadata: {name: plain}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: "<b>driver</b>"
  nodeName: "<img src=x onerror=alert(1)>"
  pool: {name: "</script><script>alert(3)</script>", generation: 1, resourceSliceCount: 1}
  devices:
  - name: "\u202Egpu-evil\u202C"
    attributes: {"x/y": {string: "<svg onload=alert(4)> \u202E \u0000"}, __proto__: {string: polluted}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "<img src=x onerror=alert(5)>", namespace: "</title><script>alert(6)</script>"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: "<img onerror=alert(7)>"}}]}}
`

func TestHostileNames(t *testing.T) {
	file := manifest(t, hostile)
	page := filepath.Join(t.TempDir(), "view.html")
	if out, err := exec.Command(binary, "view", "--validate=ignore", "-f", file, "-o", page).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, address := range []string{serve(t, "--validate=ignore", "-f", file), "file://" + page} {
		o := open(t, address, 1280, 800)
		o.click("<img src=x onerror=alert(5)>*")
		o.untilText(".panel h2", "<img src=x onerror=alert(5)>")
		o.run(chromedp.Evaluate(`location.hash = "select=" + encodeURIComponent("node/<img src=x onerror=alert(1)>")`, nil))
		o.untilText(".panel h2", "Node <img src=x onerror=alert(1)>")
		o.click(`\u202egpu-evil\u202c`)
		o.untilText(".panel h2", `Device \u202egpu-evil\u202c`)
		o.untilText(".panel", "__proto__")
		if n := value[int](o, `document.querySelectorAll("#app img, #app svg, #app script, #app b").length`); n != 0 {
			t.Errorf("%d elements were made of text", n)
		}
		if strings.Contains(value[string](o, `document.body.innerText`), "\u202e") {
			t.Error("a character that turns text around is there as it is")
		}
	}
}

// The file works from disk, and asks for nothing.
func TestFile(t *testing.T) {
	page := filepath.Join(t.TempDir(), "view.html")
	if out, err := exec.Command(binary, "view", "-f", example("fleet-200"), "-o", page).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := open(t, "file://"+page+"#select="+url.QueryEscape("wait/Pod/training/pretrain-0"), 1280, 800)
	o.untilText(".panel", "at most 3 do")
	o.untilText(".legend", "1,640 devices")
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, asked := range o.asked {
		if !strings.HasPrefix(asked, "file://"+page) && !strings.HasPrefix(asked, "data:") {
			t.Errorf("the file asks for %s", asked)
		}
	}
}

// No view has violations of WCAG 2.2 AA that axe finds, nor text that does not fit or lies on other text, in either theme, on a
// desktop, on a phone, and at 200 %.
func TestAccessibility(t *testing.T) {
	source, err := os.ReadFile("bin/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: run make npm", err)
	}
	address, states := serve(t, "-f", example("fleet-200")), serve(t, "-f", manifest(t, everyState))
	for _, theme := range []string{"light", "dark"} {
		for _, size := range [][2]int64{{1280, 800}, {390, 844}, {640, 400}} {
			for _, views := range [][]string{
				{address, "", "select=wait%2FPod%2Ftraining%2Fpretrain-0", "select=node%2Fh100-001", "tab=usage", "tab=whatif"},
				{states, "select=device%2Fpart.example.com%2Fb%2Fwhole", "select=device%2Fgpu.example.com%2Fa%2Ftaken", "select=pool%2Ffabric.example.com%2Ffabric", "select=no-such", "tab=usage&by=node", "tried"},
			} {
				o := open(t, views[0], size[0], size[1], emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
				o.run(chromedp.Evaluate(string(source), nil))
				for _, view := range views[1:] {
					o.accessible(fmt.Sprintf("%s, %d wide", theme, size[0]), view)
				}
				o.run(chromedp.Evaluate(`location.hash = ""`, nil))
				o.until(`!document.querySelector(".maps").hidden`)
				if views[0] == address {
					o.screenshot(fmt.Sprintf("%s-%d", theme, size[0]))
				}
				o.close() // a browser has six connections for a server
			}
		}
	}
}

// accessible goes to a view and judges it.
func (o *tab) accessible(setup, view string) {
	o.Helper()
	if view == "tried" {
		o.run(chromedp.Evaluate(`location.hash = "tab=whatif"`, nil))
		o.fill("Change", "cordon")
		o.fill("Node", "a")
		o.click("Try")
		o.untilText(".whatif [role=status]", "kubectl cordon a")
	} else {
		o.run(chromedp.Evaluate(fmt.Sprintf("location.hash = %q", view), nil))
		o.until(fmt.Sprintf(`%q.includes("select") !== document.querySelector(".panel").hidden && !document.body.innerText.includes("Asking why")`, view))
	}
	found := value[[]string](o, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((r) =>
		r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 2).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join("; ")))`)
	for _, violation := range append(found, value[[]string](o, overlaps)...) {
		o.Errorf("%s, %q: %s", setup, view, violation)
	}
	if wide := value[[]float64](o, `[document.documentElement.scrollWidth, innerWidth]`); wide[0] > wide[1] {
		o.Errorf("%s, %q: %v pixels on a page of %v", setup, view, wide[0], wide[1])
	}
}

// overlaps are texts that lie on each other, as far as they can be seen.
const overlaps = `(() => {
	const seen = [];
	const walker = document.createTreeWalker(document.getElementById("app"), NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const text = walker.currentNode, parent = text.parentElement;
		if (!text.data.trim() || parent.closest(".tree, option, [hidden]") || !parent.checkVisibility()) continue;
		const range = document.createRange();
		range.selectNodeContents(text);
		for (const r of range.getClientRects()) {
			const at = {left: r.left, right: r.right, top: r.top, bottom: r.bottom, of: text, text: text.data.slice(0, 40)};
			for (let e = parent; e !== document.body; e = e.parentElement) {
				if (getComputedStyle(e).overflow === "visible") continue;
				const clip = e.getBoundingClientRect();
				at.left = Math.max(at.left, clip.left); at.right = Math.min(at.right, clip.right);
				at.top = Math.max(at.top, clip.top); at.bottom = Math.min(at.bottom, clip.bottom);
			}
			if (at.right - at.left > 2 && at.bottom - at.top > 4) seen.push(at);
		}
	}
	const found = [];
	seen.forEach((a, i) => seen.slice(i + 1).forEach((b) => {
		if (a.of !== b.of && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) found.push("\"" + a.text + "\" lies on \"" + b.text + "\"");
	}));
	return found.slice(0, 5); })()`
