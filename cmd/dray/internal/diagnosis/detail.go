// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dray-project/dray/cel"
)

// Detail is one sentence about devices of a node. After Add, it is about devices of several nodes.
type Detail struct {
	// Text is the start of the sentence, or all of it.
	Text string
	// Counts follow Text in the sentence.
	Counts []Counts
	// example is the node to which a Text without Counts applies, if it does not apply to all.
	example string
}

func plain(text string) Detail { return Detail{Text: text} }

func plainDetails(texts []string) []Detail {
	list := make([]Detail, len(texts))
	for i, text := range texts {
		list[i] = plain(text)
	}
	return list
}

// Counts says how many devices have each of several values, or each holder.
type Counts struct {
	name  string // phrase before the values
	form  form
	list  []counted
	index map[string]int // index in list, by what is counted
	// nodes is the number of nodes that were added. differing says that they differ.
	nodes     int
	differing bool
	// absent is the sentence if all devices lack the value.
	absent string
}

// form selects the wording of counts.
type form int

const (
	values form = iota
	holders
	number
)

// counted is one value with its numbers of devices and nodes.
type counted struct {
	what           string
	devices, nodes int
}

// count counts the values of a node's devices.
func count(name string, devices []device, value func(device) string) Counts {
	c := Counts{name: name, nodes: 1}
	for _, one := range devices {
		c.add(value(one), 1)
	}
	return c
}

// valuesOf counts the values of an attribute or capacity.
func valuesOf(what kind, name cel.Name, devices []device) Counts {
	return count(name.ID+" is ", devices, func(one device) string {
		value, _ := what.value(one, name)
		return value
	})
}

// numberOf counts the devices only.
func numberOf(name string, devices []device) Counts {
	c := Counts{name: name, form: number, nodes: 1}
	c.add("", len(devices))
	return c
}

// add adds devices of a node with one value.
func (c *Counts) add(what string, devices int) {
	if i := c.position(what); i >= 0 {
		c.list[i].devices += devices
		return
	}
	c.put(counted{what, devices, 1})
}

func (c *Counts) has(what string) bool { return c.position(what) >= 0 }

// position returns the index of a value in the list, or -1. Short lists are searched linearly.
func (c *Counts) position(what string) int {
	const few = 16
	if len(c.list) <= few {
		return slices.IndexFunc(c.list, func(one counted) bool { return one.what == what })
	}
	if c.index == nil {
		c.index = make(map[string]int, 2*few)
		for i, one := range c.list {
			c.index[one.what] = i
		}
	}
	if i, found := c.index[what]; found {
		return i
	}
	return -1
}

func (c *Counts) put(one counted) {
	if c.index != nil {
		c.index[one.what] = len(c.list)
	}
	c.list = append(c.list, one)
}

// addNodes adds the counts of other nodes.
func (c *Counts) addNodes(other *Counts) {
	if c.form == values && len(c.list) == 1 && len(other.list) == 1 && c.list[0].what == other.list[0].what {
		// the number of devices is not printed for a single value
		c.list[0].nodes += other.list[0].nodes
		c.nodes += other.nodes
		return
	}
	c.differing = c.differing || other.differing || len(c.list) != len(other.list)
	for _, one := range other.list {
		i := c.position(one.what)
		if i < 0 {
			c.put(one)
			c.differing = true
			continue
		}
		c.differing = c.differing || c.list[i].devices*other.nodes != one.devices*c.nodes
		c.list[i].devices += one.devices
		c.list[i].nodes += one.nodes
	}
	c.nodes += other.nodes
}

// String returns `model is "A100" (3), "H200" (1)` if all nodes agree, and `model is "A100" on 14
// nodes, "H200" on 2` if they differ.
func (c *Counts) String() string {
	sorted := slices.Clone(c.list)
	if !c.differing {
		for i := range sorted {
			sorted[i].devices /= c.nodes
		}
	}
	slices.SortFunc(sorted, func(a, b counted) int {
		if c.differing {
			return cmp.Or(b.nodes-a.nodes, strings.Compare(a.what, b.what))
		}
		return cmp.Or(b.devices-a.devices, strings.Compare(a.what, b.what))
	})
	switch {
	case c.absent != "" && len(sorted) == 1 && sorted[0].what == missingValue:
		return c.absent
	case c.form == holders:
		return c.held(sorted)
	case c.form == number && c.differing:
		return fmt.Sprintf("%s%s on %s", c.name, numbered(sorted[0].devices, "device"), nodes(c.nodes))
	case c.form == number:
		return c.name + numbered(sorted[0].devices, "device")
	case c.differing:
		return c.name + shares(sorted, func(i int, one counted) string {
			if i == 0 {
				return one.what + " on " + nodes(one.nodes)
			}
			return fmt.Sprintf("%s on %d", one.what, one.nodes)
		})
	case len(sorted) == 1:
		return c.name + sorted[0].what
	}
	return c.name + shares(sorted, func(_ int, one counted) string { return fmt.Sprintf("%s (%d)", one.what, one.devices) })
}

// shares returns the first few values with their numbers.
func shares(sorted []counted, text func(i int, one counted) string) string {
	const most = 4
	var parts []string
	for i, one := range sorted[:min(most, len(sorted))] {
		parts = append(parts, text(i, one))
	}
	if len(sorted) > most {
		parts = append(parts, "and "+numbered(len(sorted)-most, "other value"))
	}
	return strings.Join(parts, ", ")
}

// held returns a phrase with the largest holders: those with most devices, or on most nodes.
func (c *Counts) held(sorted []counted) string {
	const most = 5
	first := sorted[:min(most, len(sorted))]
	rest := sorted[len(first):]
	if c.differing {
		return holdersOn(first, len(rest))
	}
	var parts []string
	for _, one := range first {
		parts = append(parts, fmt.Sprintf("%d by %s", one.devices, one.what))
	}
	if len(rest) > 0 {
		devices := 0
		for _, one := range rest {
			devices += one.devices
		}
		parts = append(parts, fmt.Sprintf("%d by %s", devices, others(len(rest))))
	}
	return strings.Join(parts, ", ")
}

// holdersOn returns a phrase with some holders, and the number of nodes where each has devices.
func holdersOn(first []counted, more int) string {
	alone := first[0].nodes == 1
	var parts []string
	for i, one := range first {
		switch {
		case alone:
			parts = append(parts, one.what)
		case i == 0:
			parts = append(parts, one.what+" on "+nodes(one.nodes))
		default:
			parts = append(parts, fmt.Sprintf("%s on %d", one.what, one.nodes))
		}
	}
	if more > 0 {
		parts = append(parts, "and "+others(more))
	}
	text := "by " + strings.Join(parts, ", ")
	if alone {
		text += ", each on one node"
	}
	return text
}

func others(n int) string { return numbered(n, "other") }

func nodes(n int) string { return numbered(n, "node") }

// numbered returns a number with a noun, in the plural unless it is 1.
func numbered(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// String is one sentence.
func (d Detail) String() string {
	phrases := make([]string, len(d.Counts))
	for i := range d.Counts {
		phrases[i] = d.Counts[i].String()
	}
	text := d.Text + strings.Join(phrases, ", ")
	if d.example != "" {
		return "for example on " + d.example + ": " + text
	}
	return text
}

// Differs reports whether the sentence differs between the nodes.
func (d Detail) Differs() bool {
	return d.example != "" || slices.ContainsFunc(d.Counts, func(c Counts) bool { return c.differing })
}

// Add adds the details of another node. Counts are added. A detail without counts stays that of the
// first node; if another node differs, it names the first node.
func Add(details, others []Detail, first string) []Detail {
	like := func(list []Detail, one Detail) int {
		return slices.IndexFunc(list, func(other Detail) bool { return other.Text == one.Text && len(other.Counts) == len(one.Counts) })
	}
	known := len(details)
	for _, other := range others {
		if len(other.Counts) > 0 && like(details[:known], other) < 0 {
			details = append(details, other.apart(first))
		}
	}
	for i := range details[:known] {
		j := like(others, details[i])
		if j < 0 {
			details[i] = details[i].apart(first)
			continue
		}
		for k := range details[i].Counts {
			details[i].Counts[k].addNodes(&others[j].Counts[k])
		}
	}
	return details
}

// apart marks a detail that only some of the nodes have.
func (d Detail) apart(first string) Detail {
	if len(d.Counts) == 0 {
		d.example = first
	}
	for k := range d.Counts {
		d.Counts[k].differing = true
	}
	return d
}

// limitDetails shortens a list.
func limitDetails(list []Detail) []Detail {
	const most = 4
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), plain(fmt.Sprintf("and %d more", len(list)-most)))
}
