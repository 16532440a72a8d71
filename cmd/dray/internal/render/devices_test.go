// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

func amount(name, left, total string) cluster.AmountState {
	return cluster.AmountState{Name: name, Left: resource.MustParse(left), Total: resource.MustParse(total)}
}

// printedStates are a pool with a device of each kind, one that several nodes reach, and one that cannot be used.
func printedStates() []cluster.PoolState {
	return []cluster.PoolState{
		{
			Driver: "gpu.example.com", Pool: "n1", Generation: 3, Slices: 1, SliceCount: 1, Nodes: []string{"n1"},
			CounterSets: []cluster.CounterSetState{{Name: "set", Counters: []cluster.AmountState{amount("memory", "10Gi", "40Gi"), amount("slices", "0", "7")}}},
			Devices: []cluster.DeviceState{
				{Name: "gpu-0", Holders: []cluster.HolderState{{Claim: "ml/a", Request: "r", Consumers: []string{"p", "q"}}, {Claim: "ml/b", Request: "s", Consumers: []string{"p", "q"}}}},
				{
					Name: "gpu-1", Shared: true, Capacity: []cluster.AmountState{amount("memory", "30Gi", "40Gi"), amount("vcores", "0", "8")},
					Holders: []cluster.HolderState{{Claim: "ml/c", Request: "r"}},
				},
				{
					Name: "gpu-2", Capacity: []cluster.AmountState{amount("memory", "40Gi", "40Gi"), amount("vcores", "8", "8")}, Blocked: "memory",
					Taints: []resourceapi.DeviceTaint{{Key: "ill", Value: "yes", Effect: resourceapi.DeviceTaintEffectNoSchedule}, {Key: "old", Effect: resourceapi.DeviceTaintEffectNone}},
				},
				{Name: "gpu-3", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("A100")}, "numa": {IntValue: ptr.To[int64](1)}}},
				{Name: "gpu-4"},
			},
		},
		{
			Driver: "net.example.com", Pool: "fabric", Generation: 1, Slices: 1, SliceCount: 2, Nodes: []string{"n1", "n2", "n3", "n4", "n5"},
			Incomplete: "1 of 2 slices", Invalid: "two devices of one name", Devices: []cluster.DeviceState{{Name: "vf"}},
		},
		{Driver: "net.example.com", Pool: "none"},
	}
}

func printed(t *Terminal, write func(*Terminal)) string {
	var out strings.Builder
	t.Out = &out
	if t.Width == 0 {
		t.Width = unlimited
	}
	write(t)
	return out.String()
}

// cells joins the columns of each line, so that their widths do not matter.
func cells(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		var kept []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), columnGap) {
			if cell = strings.TrimSpace(cell); cell != "" {
				kept = append(kept, cell)
			}
		}
		lines = append(lines, strings.Join(kept, "|"))
	}
	return strings.Join(lines, "\n")
}

// TestDevicesForPrograms has one line for each device, in which nothing is left out or combined.
func TestDevicesForPrograms(t *testing.T) {
	want := `DRIVER|POOL|NODE|DEVICE|STATE|HELD-BY|CAPACITY|TAINTS
gpu.example.com|n1|n1|gpu-0|used|ml/p ml/q|-|-
gpu.example.com|n1|n1|gpu-1|shared|claim ml/c|memory=30Gi/40Gi,vcores=0/8|-
gpu.example.com|n1|n1|gpu-2|blocked|-|memory=40Gi,vcores=8|ill=yes:NoSchedule,old:None
gpu.example.com|n1|n1|gpu-3|free|-|-|-
gpu.example.com|n1|n1|gpu-4|free|-|-|-
net.example.com|fabric|5 nodes|vf|unusable|-|-|-
net.example.com|none|-|-|-|-|-|-`
	inventory := func(terminal *Terminal) { terminal.Inventory(printedStates()) }
	if diff := cmp.Diff(want, cells(printed(&Terminal{}, inventory))); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	wide := strings.NewReplacer("TAINTS\n", "TAINTS|ATTRIBUTES\n", "5 nodes", "n1,n2,n3,n4,n5", "gpu-3|free|-|-|-", "gpu-3|free|-|-|-|model=A100, numa=1").Replace(want)
	for _, end := range []string{"gpu-0|used|ml/p ml/q|-|-", "vcores=0/8|-", "old:None", "gpu-4|free|-|-|-", "vf|unusable|-|-|-", "none|-|-|-|-|-|-"} {
		wide = strings.Replace(wide, end, end+"|-", 1)
	}
	if diff := cmp.Diff(wide, cells(printed(&Terminal{Wide: true}, inventory))); diff != "" {
		t.Errorf("wide: want -, got +\n%s", diff)
	}
	_, rest, _ := strings.Cut(want, "\n")
	if diff := cmp.Diff(rest, cells(printed(&Terminal{NoHeaders: true}, inventory))); diff != "" {
		t.Errorf("without headers: want -, got +\n%s", diff)
	}
}

// TestDevicesForPeople combines devices that differ in their names only, and leaves out empty columns.
func TestDevicesForPeople(t *testing.T) {
	want := `pool gpu.example.com/n1
1 node (n1); generation 3; 5 devices, 2 in use, 1 blocked
counters of set: memory 10Gi of 40Gi left, slices 0 of 7 left
DEVICE|STATE|HELD BY|CAPACITY|TAINTS
gpu-0|used|ml/p ml/q
gpu-1|shared|claim ml/c|memory 30Gi of 40Gi left, vcores 0 of 8 left
gpu-2|blocked|memory 40Gi, vcores 8|ill=yes:NoSchedule, old:None
gpu-{3,4}|free

pool net.example.com/fabric
5 nodes (n1, n2, n3, … n5); generation 1; 1 device, 0 in use
incomplete: 1 of 2 slices
invalid: two devices of one name
DEVICE|STATE
vf|unusable

pool net.example.com/none
no node reaches it; generation 0; 0 devices, 0 in use

3 pools, 6 devices, 2 in use; 1 pool cannot be used.`
	inventory := func(terminal *Terminal) { terminal.Inventory(printedStates()) }
	if diff := cmp.Diff(want, cells(printed(&Terminal{Folded: true}, inventory))); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	wide := strings.NewReplacer(
		"HELD BY|CAPACITY|TAINTS", "HELD BY|CAPACITY|TAINTS|ATTRIBUTES", "ml/p ml/q", "ml/p ml/q (claim ml/a, request r), ml/p ml/q (claim ml/b, request s)",
		"claim ml/c", "claim ml/c (claim ml/c, request r)", "gpu-{3,4}|free", "gpu-3|free|model=A100, numa=1\ngpu-4|free",
	).Replace(want)
	if diff := cmp.Diff(wide, cells(printed(&Terminal{Folded: true, Wide: true, Width: 60}, inventory))); diff == "" {
		t.Error("paragraphs are not folded")
	}
	if diff := cmp.Diff(wide, cells(printed(&Terminal{Folded: true, Wide: true}, inventory))); diff != "" {
		t.Errorf("wide: want -, got +\n%s", diff)
	}
	for _, terminal := range []*Terminal{{}, {Folded: true}} {
		if got := printed(terminal, func(terminal *Terminal) { terminal.Inventory(nil) }); got != "No pools: nothing publishes devices.\n" {
			t.Errorf("no pools: %q", got)
		}
	}
	usable := printed(&Terminal{Folded: true}, func(terminal *Terminal) { terminal.Inventory(printedStates()[:1]) })
	if want := "\n1 pool, 5 devices, 2 in use.\n"; !strings.HasSuffix(usable, want) {
		t.Errorf("want %q at the end of:\n%s", want, usable)
	}
}

// TestDevicesDocument has one item and one name for each device, and all pools.
func TestDevicesDocument(t *testing.T) {
	d := InventoryDocument(printedStates())
	wantNames := []string{
		"gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-1", "gpu.example.com/n1/gpu-2", "gpu.example.com/n1/gpu-3", "gpu.example.com/n1/gpu-4", "net.example.com/fabric/vf",
	}
	if diff := cmp.Diff(wantNames, d.Names); diff != "" {
		t.Errorf("names: want -, got +\n%s", diff)
	}
	for i, want := range []string{
		`{"driver":"gpu.example.com","pool":"n1","nodes":["n1"],"state":"used","name":"gpu-0","heldBy":[{"claim":"ml/a","request":"r","reservedFor":["p","q"]},{"claim":"ml/b","request":"s","reservedFor":["p","q"]}]}`,
		`{"driver":"gpu.example.com","pool":"n1","nodes":["n1"],"state":"shared","name":"gpu-1","capacity":[{"name":"memory","left":"30Gi","total":"40Gi"},{"name":"vcores","left":"0","total":"8"}],"allowMultipleAllocations":true,"heldBy":[{"claim":"ml/c","request":"r"}]}`,
	} {
		got, err := json.Marshal(d.Items[i])
		if err != nil || string(got) != want {
			t.Errorf("item %d: %v, got\n%s, want\n%s", i, err, got, want)
		}
	}
	for states, want := range map[int]string{0: `{"kind":"DeviceInventory","apiVersion":"` + APIVersion + `","pools":[]}`, 3: `"pool":"none"`} {
		document := InventoryDocument(printedStates()[:states])
		if states == 0 {
			document = InventoryDocument(nil)
		}
		if got, err := json.Marshal(document.Value); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%d pools: %v, want %s in %s", states, err, want, got)
		}
	}
}

// TestAttributeValues has each kind of value as text.
func TestAttributeValues(t *testing.T) {
	for want, attribute := range map[string]resourceapi.DeviceAttribute{
		"-7":            {IntValue: ptr.To[int64](-7)},
		"true":          {BoolValue: ptr.To(true)},
		"A100":          {StringValue: ptr.To("A100")},
		"1.2.3":         {VersionValue: ptr.To("1.2.3")},
		"[1 2]":         {IntValues: []int64{1, 2}},
		"[true false]":  {BoolValues: []bool{true, false}},
		"[a b]":         {StringValues: []string{"a", "b"}},
		"[1.0.0 2.0.0]": {VersionValues: []string{"1.0.0", "2.0.0"}},
	} {
		if got := diagnosis.AttributeValue(attribute); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"b": {StringValue: ptr.To("\x1b[2J")}, "a": {StringValue: ptr.To("é x")}}
	if got, want := attributeList(attributes), `a=é x, b="\x1b[2J"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestUsageTable has the counts of devices as tables, as a document and as a phrase.
func TestUsageTable(t *testing.T) {
	report := &usage.Report{
		By: usage.ByNode,
		Rows: []usage.Row{
			{Name: "n1", Counts: usage.Counts{Devices: 6, Held: 2, Shares: 1, Free: 1, Stranded: 3, Causes: map[usage.Cause]int{usage.Counters: 1, usage.Cordoned: 2}}},
			{Name: "", Counts: usage.Counts{Devices: 1, Free: 1}},
		},
		Total: usage.Counts{Devices: 7, Held: 2, Shares: 1, Free: 2, Stranded: 3, Causes: map[usage.Cause]int{usage.Counters: 1, usage.Cordoned: 2}},
	}
	usageTable := func(terminal *Terminal) { terminal.Usage(report) }
	want := "NODE|DEVICES|HELD|FREE|STRANDED|BECAUSE OF\nn1|6|2|1|3|cordoned (2), counters (1)\n-|1|0|1|0|-\nTOTAL|7|2|2|3|cordoned (2), counters (1)"
	if diff := cmp.Diff(want, cells(printed(&Terminal{}, usageTable))); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	want = "NODE|DEVICES|HELD|FREE|STRANDED|SHARES LEFT|UNUSABLE POOL|NO NODE|CORDONED|TAINTS|COUNTERS|ALIGNMENT\nn1|6|2|1|3|1|0|0|2|0|1|0\n-|1|0|1|0|0|0|0|0|0|0|0\nTOTAL|7|2|2|3|1|0|0|2|0|1|0"
	if diff := cmp.Diff(want, cells(printed(&Terminal{Wide: true}, usageTable))); diff != "" {
		t.Errorf("wide: want -, got +\n%s", diff)
	}
	report.By = "attribute=numa"
	if got := printed(&Terminal{}, usageTable); !strings.HasPrefix(got, "NUMA ") {
		t.Errorf("by attribute:\n%s", got)
	}
	if got := printed(&Terminal{}, func(terminal *Terminal) { terminal.Usage(&usage.Report{}) }); got != "No devices: nothing publishes any.\n" {
		t.Errorf("no devices: %q", got)
	}
	for want, counts := range map[string]*usage.Counts{
		"7 devices: 2 held, 2 free, 3 stranded: cordoned (2), counters (1).": &report.Total,
		"1 device: 0 held, 1 free, 0 stranded.":                              &report.Rows[1].Counts,
	} {
		if got := UsageLine(counts); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	d := UsageDocument(report)
	if diff := cmp.Diff([]string{"n1", "-"}, d.Names); diff != "" || len(d.Items) != 2 {
		t.Errorf("%d items; names: want -, got +\n%s", len(d.Items), diff)
	}
	for value, want := range map[any]string{
		d.Items[1]: `{"name":"","devices":1,"held":0,"free":1,"stranded":0}`,
		d.Items[0]: `{"name":"n1","devices":6,"held":2,"shares":1,"free":1,"stranded":3,"causes":{"cordoned":2,"counters":1}}`,
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%v, got\n%s, want\n%s", err, got, want)
		}
	}
	if got, err := json.Marshal(d.Value); err != nil || !strings.HasPrefix(string(got), `{"kind":"DeviceUsage","apiVersion":"`+APIVersion+`","by":"attribute=numa","items":[{"name":"n1",`) {
		t.Errorf("%v, got %s", err, got)
	}
}

// TestWords has nouns in the plural, few names of many, and the end of sentences.
func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"0 pods": Count(0, "pod"), "1 pod": Count(1, "pod"), "2 pods": Count(2, "pod"), "1 class": Count(1, "class"), "3 classes": Count(3, "class"),
		"1 pod or claim": Count(1, "pod or claim"), "2 pods and claims": Count(2, "pod or claim"),
		"": firstFew(nil), "a": firstFew([]string{"a"}), "a, b, c, d": firstFew([]string{"a", "b", "c", "d"}), "a, b, c, … e": firstFew([]string{"a", "b", "c", "d", "e"}),
		"yes.": sentence("yes"), "no?": sentence("no?"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
