package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Inventory prints pools and their devices. Wide leaves nothing out and does not fold.
func (t *Terminal) Inventory(states []cluster.PoolState, wide bool) {
	if len(states) == 0 {
		t.Line("No pools: nothing publishes devices.")
		return
	}
	for i := range states {
		if i > 0 {
			t.Line("")
		}
		t.pool(&states[i], wide)
	}
	t.Line("")
	t.Paragraph(0, 0, inventoryTally(states))
}

func (t *Terminal) pool(state *cluster.PoolState, wide bool) {
	t.Line(t.heading("pool " + state.Driver + "/" + state.Pool))
	t.Paragraph(2, 4, fmt.Sprintf("%s; generation %d; %s, %d in use",
		reachedBy(state.Nodes), state.Generation, Count(len(state.Devices), "device"), inUse(state.Devices)))
	if state.Incomplete != "" {
		t.Paragraph(2, 4, t.bad("incomplete: ")+state.Incomplete)
	}
	if state.Invalid != "" {
		t.Paragraph(2, 4, t.bad("invalid: ")+state.Invalid)
	}
	for _, set := range state.CounterSets {
		t.Paragraph(2, 4, "counters of "+set.Name+": "+amounts(set.Counters))
	}
	common := commonAttributes(state.Devices)
	if wide {
		common = nil
	}
	if len(common) > 0 {
		t.Paragraph(2, 4, "each device: "+attributeList(common, nil))
	}
	if len(state.Devices) > 0 {
		t.devices(state.Devices, common, wide)
	}
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

func (t *Terminal) devices(devices []cluster.DeviceState, common map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, wide bool) {
	headers := []string{"DEVICE", "HELD BY", "CAPACITY", "ATTRIBUTES AND TAINTS"}
	var names [][]string
	var rows [][]string
	for i := range devices {
		row := []string{"", holders(devices[i].Holders, wide), capacities(&devices[i]), remarks(&devices[i], common)}
		// Neighbours that differ in name only share a row.
		if last := len(rows) - 1; !wide && last >= 0 && slices.Equal(rows[last][1:], row[1:]) {
			names[last] = append(names[last], devices[i].Name)
			continue
		}
		names = append(names, []string{devices[i].Name})
		rows = append(rows, row)
	}
	for i := range rows {
		rows[i][0] = "  " + Compact(names[i])
	}
	headers[0] = "  " + headers[0]
	headers, rows = withoutEmptyColumns(headers, rows)
	at := *t
	if wide {
		at.Width = 1 << 20
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
	if len(list) == 0 {
		return "-"
	}
	parts := make([]string, len(list))
	for i, holder := range list {
		parts[i] = fmt.Sprintf("%s (%s)", holder.Claim, holder.Request)
		if wide && len(holder.Consumers) > 0 {
			parts[i] += " for " + strings.Join(holder.Consumers, " ")
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

func remarks(device *cluster.DeviceState, common map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) string {
	var parts []string
	if own := attributeList(device.Attributes, common); own != "" {
		parts = append(parts, own)
	}
	for _, taint := range device.Taints {
		parts = append(parts, "tainted "+taint.Key+"="+taint.Value+":"+string(taint.Effect))
	}
	return strings.Join(parts, ", ")
}

// commonAttributes has what is equal on all of several devices.
func commonAttributes(devices []cluster.DeviceState) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	if len(devices) < 2 {
		return nil
	}
	common := maps.Clone(devices[0].Attributes)
	for i := range devices {
		maps.DeleteFunc(common, func(name resourceapi.QualifiedName, value resourceapi.DeviceAttribute) bool {
			other, found := devices[i].Attributes[name]
			return !found || attributeValue(other) != attributeValue(value)
		})
	}
	return common
}

func attributeList(attributes, without map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if _, left := without[name]; !left {
			parts = append(parts, string(name)+"="+attributeValue(attributes[name]))
		}
	}
	return strings.Join(parts, ", ")
}

func attributeValue(a resourceapi.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case a.StringValue != nil:
		return *a.StringValue
	case a.VersionValue != nil:
		return *a.VersionValue
	case a.IntValues != nil:
		return fmt.Sprint(a.IntValues)
	case a.BoolValues != nil:
		return fmt.Sprint(a.BoolValues)
	case a.StringValues != nil:
		return fmt.Sprint(a.StringValues)
	}
	return fmt.Sprint(a.VersionValues)
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
