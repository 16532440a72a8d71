// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// Inventory prints pools and their devices. With t.Wide, it omits nothing.
func (t *Terminal) Inventory(states []cluster.PoolState) {
	if len(states) == 0 {
		t.Line("No pools: nothing publishes devices.")
		return
	}
	if !t.Folded {
		t.deviceLines(states)
		return
	}
	for i := range states {
		if i > 0 {
			t.Line("")
		}
		t.pool(&states[i])
	}
	t.Line("")
	t.Paragraph(0, 0, inventoryTally(states))
}

// deviceLines prints one complete line per device.
func (t *Terminal) deviceLines(states []cluster.PoolState) {
	headers := []string{"DRIVER", "POOL", "NODE", "DEVICE", "STATE", "HELD-BY", "CAPACITY", "TAINTS"}
	if t.Wide {
		headers = append(headers, "ATTRIBUTES")
	}
	var rows [][]string
	for i := range states {
		s := &states[i]
		start := []string{s.Driver, s.Pool, orNone(strings.Join(s.Nodes, ","))}
		if !t.Wide && len(s.Nodes) > 1 {
			start[2] = Count(len(s.Nodes), "node")
		}
		for k := range s.Devices {
			d := &s.Devices[k]
			row := append(slices.Clone(start), d.Name, s.State(d), orNone(strings.ReplaceAll(holders(d.Holders, false), ", ", ",")),
				orNone(plainCapacities(d)), orNone(strings.Join(taints(d), ",")))
			if t.Wide {
				row = append(row, orNone(attributeList(d.Attributes)))
			}
			rows = append(rows, row)
		}
		if len(s.Devices) == 0 {
			rows = append(rows, append(slices.Clone(start), slices.Repeat([]string{"-"}, len(headers)-len(start))...))
		}
	}
	t.Table(headers, rows)
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func plainCapacities(device *cluster.DeviceState) string {
	parts := make([]string, len(device.Capacity))
	for i, a := range device.Capacity {
		parts[i] = a.Name + "=" + a.Total.String()
		if device.Shared {
			parts[i] = fmt.Sprintf("%s=%s/%s", a.Name, a.Left.String(), a.Total.String())
		}
	}
	return strings.Join(parts, ",")
}

func (t *Terminal) pool(state *cluster.PoolState) {
	t.spans(0, 2, heading("pool "+state.Driver+"/"+state.Pool))
	text := fmt.Sprintf("%s; generation %d; %s, %d in use", reachedBy(state.Nodes), state.Generation, Count(len(state.Devices), "device"), inUse(state.Devices))
	if n := blocked(state.Devices); n > 0 {
		text += fmt.Sprintf(", %d blocked", n)
	}
	t.Paragraph(2, 4, text)
	if state.Incomplete != "" {
		t.spans(2, 4, bad("incomplete: "), plain(state.Incomplete))
	}
	if state.Invalid != "" {
		t.spans(2, 4, bad("invalid: "), plain(state.Invalid))
	}
	for _, set := range state.CounterSets {
		t.Paragraph(2, 4, "counters of "+set.Name+": "+amounts(set.Counters))
	}
	if len(state.Devices) > 0 {
		t.devices(state)
	}
}

func blocked(devices []cluster.DeviceState) int {
	n := 0
	for i := range devices {
		if devices[i].Blocked != "" {
			n++
		}
	}
	return n
}

func reachedBy(nodes []string) string {
	if len(nodes) == 0 {
		return "no node reaches it"
	}
	return fmt.Sprintf("%s (%s)", Count(len(nodes), "node"), firstFew(nodes))
}

func inUse(devices []cluster.DeviceState) int {
	n := 0
	for i := range devices {
		if len(devices[i].Holders) > 0 {
			n++
		}
	}
	return n
}

// amounts lists "left of total".
func amounts(list []cluster.AmountState) string {
	parts := make([]string, len(list))
	for i, a := range list {
		parts[i] = fmt.Sprintf("%s %s of %s left", a.Name, a.Left.String(), a.Total.String())
	}
	return strings.Join(parts, ", ")
}

func (t *Terminal) devices(state *cluster.PoolState) {
	headers := []string{"DEVICE", "STATE", "HELD BY", "CAPACITY", "TAINTS"}
	if t.Wide {
		headers = append(headers, "ATTRIBUTES")
	}
	var names [][]string
	var rows [][]string
	for i := range state.Devices {
		device := &state.Devices[i]
		row := []string{"", state.State(device), holders(device.Holders, t.Wide), capacities(device), strings.Join(taints(device), ", ")}
		if t.Wide {
			row = append(row, attributeList(device.Attributes))
		}
		// consecutive devices that differ only in their names share a row
		if last := len(rows) - 1; !t.Wide && last >= 0 && slices.Equal(rows[last][1:], row[1:]) {
			names[last] = append(names[last], device.Name)
			continue
		}
		names = append(names, []string{device.Name})
		rows = append(rows, row)
	}
	for i := range rows {
		rows[i][0] = "  " + Compact(names[i])
	}
	headers[0] = "  " + headers[0]
	headers, rows = withoutEmptyColumns(headers, rows)
	at := *t
	if t.Wide {
		at.Width = unlimited
	}
	at.Table(headers, rows)
}

func withoutEmptyColumns(headers []string, rows [][]string) ([]string, [][]string) {
	var keep []int
	for column := range headers {
		if column < 2 || slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" }) {
			keep = append(keep, column)
		}
	}
	pick := func(cells []string) []string {
		picked := make([]string, len(keep))
		for i, column := range keep {
			picked[i] = cells[column]
		}
		return picked
	}
	picked := make([][]string, len(rows))
	for i, row := range rows {
		picked[i] = pick(row)
	}
	return pick(headers), picked
}

func holders(list []cluster.HolderState, wide bool) string {
	var parts []string
	for _, holder := range list {
		text := diagnosis.Consumer(holder)
		if wide {
			text += fmt.Sprintf(" (claim %s, request %s)", holder.Claim, holder.Request)
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func capacities(device *cluster.DeviceState) string {
	if device.Shared {
		return amounts(device.Capacity)
	}
	parts := make([]string, len(device.Capacity))
	for i, a := range device.Capacity {
		parts[i] = a.Name + " " + a.Total.String()
	}
	return strings.Join(parts, ", ")
}

func taints(device *cluster.DeviceState) []string {
	texts := make([]string, len(device.Taints))
	for i := range device.Taints {
		texts[i] = diagnosis.TaintText(&device.Taints[i])
	}
	return texts
}

func attributeList(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := diagnosis.AttributeValue(attributes[name])
		// the API permits any string, such as escape sequences of terminals
		if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			value = strconv.Quote(value)
		}
		parts = append(parts, string(name)+"="+value)
	}
	return strings.Join(parts, ", ")
}

func inventoryTally(states []cluster.PoolState) string {
	devices, used, unusable := 0, 0, 0
	for i := range states {
		devices += len(states[i].Devices)
		used += inUse(states[i].Devices)
		if states[i].Incomplete != "" || states[i].Invalid != "" {
			unusable++
		}
	}
	text := fmt.Sprintf("%s, %s, %d in use", Count(len(states), "pool"), Count(devices, "device"), used)
	if unusable > 0 {
		text += fmt.Sprintf("; %s cannot be used", Count(unusable, "pool"))
	}
	return text + "."
}

// inventory is the JSON output of dray devices.
type inventory struct {
	metav1.TypeMeta `json:",inline"`
	Pools           []cluster.PoolState `json:"pools"`
}

// deviceItem is one device of that output.
type deviceItem struct {
	Driver string   `json:"driver"`
	Pool   string   `json:"pool"`
	Nodes  []string `json:"nodes"`
	State  string   `json:"state"`
	cluster.DeviceState
}

// InventoryDocument returns pools and devices as a document.
func InventoryDocument(states []cluster.PoolState) Document {
	if states == nil {
		states = []cluster.PoolState{}
	}
	d := Document{Value: inventory{metav1.TypeMeta{APIVersion: APIVersion, Kind: "DeviceInventory"}, states}}
	for i := range states {
		s := &states[i]
		for k := range s.Devices {
			d.Items = append(d.Items, deviceItem{s.Driver, s.Pool, s.Nodes, s.State(&s.Devices[k]), s.Devices[k]})
			d.Names = append(d.Names, s.Driver+"/"+s.Pool+"/"+s.Devices[k].Name)
		}
	}
	return d
}
