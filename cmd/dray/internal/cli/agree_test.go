// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// world is a random cluster as manifests, with what the commands are asked about.
type world struct {
	*testing.T
	seed   uint64
	random *rand.Rand
	// common draws what the pods of groups must have in common.
	common *rand.Rand
	text   strings.Builder
	nodes  []string
	free   []string // nodes whose first GPU nobody has
	zones  map[string]int
	// running has the nodes of pods of groups that run.
	running map[string]string
	pods    []string // those that wait, without groups
	groups  []string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 17)), common: rand.New(rand.NewPCG(seed, 18)), zones: make(map[string]int), running: make(map[string]string)}
	w.text.WriteString("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n")
	for i := range 1 + w.random.IntN(3) {
		w.node(fmt.Sprintf("node-%d", i))
	}
	w.templates()
	for i := range 1 + w.random.IntN(5) {
		name := fmt.Sprintf("pod-%d", i)
		w.pods = append(w.pods, name)
		w.pod(name, w.spec())
	}
	for i := range w.random.IntN(3) {
		w.group(fmt.Sprintf("group-%d", i))
	}
	for i := range sharedClaims {
		if name := fmt.Sprintf("shared-%d", i); strings.Contains(w.text.String(), "resourceClaimName: "+name) {
			w.claim(name) // a claim without a pod would be allocated, and not simulated
		}
	}
	return w
}

// sharedClaims is how many claims pods may name.
const sharedClaims = 2

// node adds a node with GPUs, each as a whole and as two halves.
func (w *world) node(name string) {
	w.nodes = append(w.nodes, name)
	w.zones[name] = w.random.IntN(2)
	fmt.Fprintf(&w.text, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {zone: z%d}}\nstatus: {allocatable: {cpu: %d, pods: 10}}\n", name, w.zones[name], 2+w.random.IntN(4))
	var counters, devices []string
	for g := range w.random.IntN(4) {
		counters = append(counters, fmt.Sprintf(`{name: gpu-%d, counters: {halves: {value: "2"}}}`, g))
		for i, draws := range []int{2, 1, 1} {
			devices = append(devices, fmt.Sprintf(`{name: gpu-%d-%d, attributes: {halves: {int: %d}, board: {int: %d}}, consumesCounters: [{counterSet: gpu-%d, counters: {halves: {value: "%d"}}}]}`, g, i, draws, g%2, g, draws))
		}
	}
	if len(devices) == 0 {
		return
	}
	w.free = append(w.free, name)
	for i, part := range []string{"sharedCounters: [" + strings.Join(counters, ", "), "devices: [" + strings.Join(devices, ", ")} {
		fmt.Fprintf(&w.text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: %[1]s-%[2]d}\nspec:\n  driver: gpu.example.com\n  nodeName: %[1]s\n  pool: {name: %[1]s, generation: 1, resourceSliceCount: 2}\n  %[3]s]\n", name, i, part)
	}
}

// templates are what pods ask for, by name.
var templates = map[string]string{
	"half":   "requests: [{name: r, exactly: {" + halves(1) + "}}]",
	"whole":  "requests: [{name: r, exactly: {" + halves(2) + "}}]",
	"two":    "requests: [{name: r, exactly: {count: 2, " + halves(1) + "}}]",
	"either": "requests: [{name: r, firstAvailable: [{name: whole, " + halves(2) + "}, {name: half, " + halves(1) + "}]}]",
	"board":  "requests: [{name: r, exactly: {count: 2, " + halves(2) + "}}], constraints: [{matchAttribute: gpu.example.com/board}]",
}

func halves(n int) string {
	return fmt.Sprintf(`deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].halves == %d'}}]`, n)
}

func (w *world) templates() {
	for name, devices := range templates {
		fmt.Fprintf(&w.text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: %s}\nspec: {spec: {devices: {%s}}}\n", name, devices)
	}
}

func (w *world) claim(name string) {
	fmt.Fprintf(&w.text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: %s}\nspec: {devices: {%s}}\n", name, templates[w.template()])
}

func (w *world) template() string {
	names := make([]string, 0, len(templates))
	for name := range templates {
		names = append(names, name)
	}
	slices.Sort(names)
	return names[w.random.IntN(len(names))]
}

// spec draws what a pod asks for.
func (w *world) spec() string {
	claim, more := "resourceClaimTemplateName: "+w.template(), ""
	if w.random.IntN(5) == 0 {
		claim = fmt.Sprintf("resourceClaimName: shared-%d", w.random.IntN(sharedClaims))
	}
	if w.random.IntN(5) == 0 {
		more = fmt.Sprintf("  nodeSelector: {zone: z%d}\n", w.random.IntN(2))
	}
	return fmt.Sprintf("  containers: [{name: main, image: x, resources: {requests: {cpu: %d}}}]\n  priority: %d\n  resourceClaims: [{name: c, %s}]\n%s", 1+w.random.IntN(2), w.random.IntN(3), claim, more)
}

// pod adds a pod that waits.
func (w *world) pod(name, spec string) {
	fmt.Fprintf(&w.text, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: %[1]s}\nspec:\n%s", name, spec)
}

// group adds a PodGroup that needs all of its pods. Those after the first are alike, and often the first is, too.
func (w *world) group(name string) {
	w.groups = append(w.groups, name)
	pods, first, spec := 1+w.random.IntN(3), w.spec(), w.spec()
	if w.random.IntN(2) == 0 {
		first = spec
	}
	annotation, constraint, running := "", "", 0
	switch w.common.IntN(4) {
	case 0:
		annotation = `, annotations: {dray-project.github.io/extension: '{"constraints": [{"matchAttribute": "gpu.example.com/board"}]}'}`
	case 1:
		constraint = ", schedulingConstraints: {topology: [{key: zone}]}"
	}
	zone := w.common.IntN(2) // pods that run in several zones are an error if they must not
	for w.common.IntN(5) < 4 && len(w.free) > 0 {
		at := w.common.IntN(len(w.free))
		if node := w.free[at]; constraint == "" || w.zones[node] == zone {
			w.free = slices.Delete(w.free, at, at+1)
			w.runs(name, running, node)
			running++
		}
	}
	fmt.Fprintf(&w.text, "---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: %s%s}\nspec: {schedulingPolicy: {gang: {minCount: %d}}%s}\n", name, annotation, pods+running, constraint)
	for i := range pods {
		asks := spec
		if i == 0 {
			asks = first
		}
		w.pod(fmt.Sprintf("%s-pod-%d", name, i), asks+"  schedulingGroup: {podGroupName: "+name+"}\n")
	}
}

// runs adds a pod of a group that runs, with a half of a GPU of a node.
func (w *world) runs(group string, number int, node string) {
	pod := fmt.Sprintf("%s-runs-%d", group, number)
	w.running[pod] = node
	gpu := 0
	if strings.Contains(w.text.String(), "pool: {name: "+node+", generation: 1, resourceSliceCount: 2}\n  sharedCounters: [{name: gpu-0, counters: {halves: {value: \"2\"}}}, {name: gpu-1") {
		gpu = w.common.IntN(2)
	}
	fmt.Fprintf(&w.text, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: %[1]s, uid: %[1]s-has}\nspec: {devices: {%[3]s}}\n"+
		"status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: %[2]s, device: gpu-%[5]d-%[4]d}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%[2]s]}]}]}}, reservedFor: [{resource: pods, name: %[1]s, uid: %[1]s}]}\n"+
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: %[1]s, uid: %[1]s}\nspec:\n  nodeName: %[2]s\n  schedulingGroup: {podGroupName: %[6]s}\n  resourceClaims: [{name: c, resourceClaimName: %[1]s}]\n  containers: [{name: main, image: x}]\nstatus: {phase: Running}\n",
		pod, node, templates["half"], 1+w.common.IntN(2), gpu, group)
}

// dray runs a command on the cluster.
func (w *world) dray(command string) (out string, status int) {
	return runStatus(w.text.String(), append(append([]string{"dray"}, strings.Fields(command)...), "-f", "-")...)
}

// items are those of a command's output as JSON.
func (w *world) items(command string, items any) (status int) {
	w.Helper()
	out, status := w.dray(command + " -o json")
	var document struct {
		Items json.RawMessage `json:"items"`
	}
	begin, end := strings.Index(out, "{\n"), strings.LastIndex(out, "\n}\n")
	if begin < 0 || end < begin {
		w.Fatalf("seed %d: %s: no document in\n%s", w.seed, command, out)
	}
	if err := json.Unmarshal([]byte(out[begin:end+2]), &document); err != nil {
		w.Fatalf("seed %d: %s: %v in\n%s", w.seed, command, err, out)
	}
	if err := json.Unmarshal(document.Items, items); err != nil {
		w.Fatalf("seed %d: %s: %v in\n%s", w.seed, command, err, out)
	}
	return status
}

// allocated has the nodes of pods that allocate places.
func (w *world) allocated() (nodes map[string]string, pending int) {
	out, status := w.dray("allocate")
	nodes = make(map[string]string)
	for line := range strings.Lines(out) {
		name, found := strings.CutPrefix(line, "default/")
		fields := strings.Fields(name)
		if !found || len(fields) < 2 || strings.Contains(name, "is not placed") {
			continue
		}
		pending++
		if fields[1] != "-" {
			nodes[fields[0]] = fields[1]
		}
	}
	if (status == cli.ExitOK) != (len(nodes) == pending) || status > cli.ExitNotPlaced {
		w.Errorf("seed %d: allocate ends with %d: %d of %d pods\n%s", w.seed, status, len(nodes), pending, out)
	}
	return nodes, pending
}

// The commands agree with each other: about which pods have a place, and where.
func TestCommandsAgree(t *testing.T) {
	first, last := uint64(0), uint64(60)
	if text := os.Getenv("DRAY_WORLDS"); text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &first, &last); err != nil {
			t.Fatalf("DRAY_WORLDS: %q: want FIRST-END: %v", text, err)
		}
	}
	seen := make(map[string]int)
	for seed := first; seed < last; seed++ {
		w := newWorld(t, seed)
		nodes, pending := w.allocated()
		seen["placed"] += len(nodes)
		seen["waits"] += pending - len(nodes)
		w.when(nodes, seen)
		w.plan(len(nodes), pending, seen)
		for _, name := range w.pods {
			w.one(name, nodes[name], seen)
		}
		for _, name := range w.groups {
			w.together(name, nodes, seen)
		}
		for pod, node := range w.running {
			w.drain(pod, node, seen)
		}
		if t.Failed() {
			t.Log(w.text.String())
			break
		}
	}
	for _, kind := range []string{"placed", "waits", "starts", "planned", "victims", "a group", "a group waits", "a group joins", "drained", "not drained"} {
		if seen[kind] == 0 {
			t.Errorf("never seen: %s; seen: %v", kind, seen)
		}
	}
	t.Log(seen)
}

// when compares what starts at once if nothing holds up what comes later.
func (w *world) when(nodes map[string]string, seen map[string]int) {
	const now = "2026-11-25T12:00:00Z"
	var starts []struct {
		Kind, Name string
		Starts     *time.Time
		Nodes      []string
	}
	w.items("simulate when --backfill --now "+now, &starts)
	for _, s := range starts {
		name := strings.TrimPrefix(s.Name, "default/")
		if s.Kind == "PodGroup" {
			name += "-pod-0"
		}
		node := nodes[name]
		if (s.Starts != nil) != (node != "") || s.Kind == "Pod" && node != "" && !slices.Equal(s.Nodes, []string{node}) {
			w.Errorf("seed %d: %s %s starts at %v on %v; allocate has %q", w.seed, s.Kind, s.Name, s.Starts, s.Nodes, node)
		}
		if s.Starts != nil {
			seen["starts"]++
		}
	}
}

// plan compares how many pods have a place without a new node.
func (w *world) plan(placed, pending int, seen map[string]int) {
	var plans []struct {
		Like                               string
		Nodes, Placed, Unplaced, Undecided int
	}
	status := w.items("simulate plan", &plans)
	all := false
	for _, p := range plans {
		if p.Placed+p.Unplaced != pending || p.Undecided != 0 || (p.Nodes == 0) != (p.Placed == placed) || p.Placed < placed {
			w.Errorf("seed %d: plan %+v; allocate places %d of %d", w.seed, p, placed, pending)
		}
		all = all || p.Unplaced == 0
		if p.Nodes > 0 {
			seen["planned"]++
		}
	}
	if all != (status == cli.ExitOK) {
		w.Errorf("seed %d: plan ends with %d, %+v", w.seed, status, plans)
	}
}

// one compares what is said of a pod that is in no group.
func (w *world) one(name, node string, seen map[string]int) {
	if out, status := w.dray("explain " + name); (status == cli.ExitOK) != (node != "") {
		w.Errorf("seed %d: explain %s ends with %d; allocate has %q\n%s", w.seed, name, status, node, out)
	}
	var sets []struct {
		Node    string
		Victims []string
	}
	w.items("simulate victims --any-priority "+name, &sets)
	if none := len(sets) > 0 && len(sets[0].Victims) == 0; none != (node != "") || none && sets[0].Node != node {
		w.Errorf("seed %d: victims for %s: %v; allocate has %q", w.seed, name, sets, node)
	}
	if len(sets) > 0 {
		seen["victims"]++
	}
	_, alone := w.dray("explain --alone " + name)
	if out, status := w.dray("simulate repack --for " + name); status != alone {
		w.Errorf("seed %d: repack --for %s ends with %d, explain --alone with %d\n%s", w.seed, name, status, alone, out)
	}
}

// together compares what is said of a group.
func (w *world) together(name string, nodes map[string]string, seen map[string]int) {
	out, status := w.dray("explain podgroup/" + name)
	if node := nodes[name+"-pod-0"]; (status == cli.ExitOK) != (node != "") {
		w.Errorf("seed %d: explain podgroup/%s ends with %d; allocate has %q\n%s", w.seed, name, status, node, out)
	}
	_, alone := w.dray("simulate gang " + name)
	if out, status := w.dray("simulate repack --for podgroup/" + name); status != alone {
		w.Errorf("seed %d: repack --for podgroup/%s ends with %d, gang with %d\n%s", w.seed, name, status, alone, out)
	}
	if seen["a group"]++; status != cli.ExitOK {
		seen["a group waits"]++
	}
	text := w.text.String()
	if w.running[name+"-runs-0"] != "" && (strings.Contains(text, name+", annotations") || strings.Contains(text, "schedulingConstraints")) {
		seen["a group joins"]++
	}
}

// drain compares whether the pod of a group that runs finds another node with whether it fits where its node is not, and no other pod waits.
func (w *world) drain(pod, node string, seen map[string]int) {
	group, _, _ := strings.Cut(pod, "-runs")
	var without []string
	for document := range strings.SplitSeq(w.text.String(), "---\n") {
		switch {
		case strings.Contains(document, "name: "+node+",") && strings.Contains(document, "kind: Node"), strings.Contains(document, "nodeName: "+node) && strings.Contains(document, "kind: ResourceSlice"):
			continue
		case strings.Contains(document, "kind: Pod\n") && !strings.Contains(document, "-runs-"):
			continue // others that wait
		case strings.Contains(document, "kind: ResourceClaim\nmetadata: {name: "+pod+","):
			document, _, _ = strings.Cut(document, "status:")
		case strings.Contains(document, "kind: Pod\nmetadata: {name: "+pod+","):
			document = strings.NewReplacer("  nodeName: "+node+"\n", "", "status: {phase: Running}\n", "").Replace(document)
		case strings.Contains(document, "kind: PodGroup") && strings.Contains(document, "name: "+group):
			document = minCount.ReplaceAllString(document, "minCount: 1")
		}
		without = append(without, document)
	}
	out, status := w.dray("simulate drain " + node)
	why, want := runStatus(strings.Join(without, "---\n"), "dray", "explain", pod, "-f", "-")
	if status != want {
		w.Errorf("seed %d: drain %s ends with %d, explain %s without the node with %d\n%s\n%s", w.seed, node, status, pod, want, out, why)
	}
	if seen["drained"]++; status != cli.ExitOK {
		seen["not drained"]++
	}
}

var minCount = regexp.MustCompile("minCount: [0-9]+")
