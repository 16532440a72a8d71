// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/xml"
	"fmt"
	"image"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// element is a part of a drawing.
type element struct {
	XMLName  xml.Name
	X        int       `xml:"x,attr"`
	Y        int       `xml:"y,attr"`
	Width    string    `xml:"width,attr"`
	Height   string    `xml:"height,attr"`
	Href     string    `xml:"href,attr"`
	Title    string    `xml:"title"`
	Text     string    `xml:",chardata"`
	Elements []element `xml:",any"`
}

// bounds is where the element is drawn.
func (e *element) bounds(t *testing.T) image.Rectangle {
	t.Helper()
	var w, h int
	if _, err := fmt.Sscan(e.Width+" "+e.Height, &w, &h); err != nil {
		t.Fatalf("%s: %v", e.XMLName.Local, err)
	}
	return image.Rect(e.X, e.Y, e.X+w, e.Y+h)
}

// TestDrawingLayout: nodes do not overlap, their devices lie within them beside each other, and all is within the drawing.
func TestDrawingLayout(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := &Picture{Source: "a test"}
		devices, states := make(map[string]int), []string{Free, Used, Shared, Blocked, Tainted, Unusable, Unreached}
		for i := range 1 + rng.IntN(40) {
			node := Node{Name: fmt.Sprintf("node-%d-with-a-name-that-is-rather-long", i), Kind: fmt.Sprint("kind ", rng.IntN(3)), Cordoned: rng.IntN(4) == 0}
			for range rng.IntN(3) {
				pool := Pool{Name: fmt.Sprint("pool-", len(p.Pools)), Nodes: []string{node.Name}}
				size := rng.IntN(40)
				if rng.IntN(50) == 0 {
					size = 3000
				}
				for k := range size {
					pool.Devices = append(pool.Devices, Device{Name: fmt.Sprint("gpu-", k), State: states[rng.IntN(len(states))]})
				}
				name := node.Name
				if node.Cordoned {
					name = "⊘ " + name
				}
				devices[name] += len(pool.Devices)
				node.pools = append(node.pools, len(p.Pools))
				p.Pools = append(p.Pools, pool)
			}
			p.Nodes = append(p.Nodes, node)
		}
		var out strings.Builder
		if err := WriteSVG(&out, p); err != nil {
			t.Fatal(err)
		}
		var svg element
		if err := xml.Unmarshal([]byte(out.String()), &svg); err != nil {
			t.Fatal(err)
		}
		titles := make(map[string]int)
		for _, node := range p.Nodes {
			titles[node.Kind]++
		}
		for kind, count := range titles {
			if title := fmt.Sprintf("%s · %d", kind, count); !slices.ContainsFunc(svg.Elements, func(e element) bool { return e.XMLName.Local == "text" && e.Text == title }) {
				t.Errorf("seed %d: the drawing does not say %q", seed, title)
			}
		}
		whole := svg.bounds(t)
		var boxes []image.Rectangle
		for i := range svg.Elements {
			if svg.Elements[i].XMLName.Local == "g" {
				boxes = append(boxes, boxOf(t, &svg.Elements[i], devices))
			}
		}
		if len(boxes) != len(p.Nodes) {
			t.Fatalf("seed %d: %d boxes for %d nodes", seed, len(boxes), len(p.Nodes))
		}
		for i, box := range boxes {
			if !box.In(whole) {
				t.Errorf("seed %d: %v is not within %v", seed, box, whole)
			}
			for _, other := range boxes[:i] {
				if box.Overlaps(other) {
					t.Errorf("seed %d: %v overlaps %v", seed, box, other)
				}
			}
		}
	}
}

// A box is about twice as wide as it is high, and as large as its devices need.
func TestSizeOfBoxes(t *testing.T) {
	for devices, want := range map[int]struct{ columns, rows int }{0: {6, 0}, 1: {6, 1}, 18: {6, 3}, 19: {7, 3}, 32: {8, 4}, 33: {9, 4}} {
		box := &svgBox{pools: []*Pool{{Devices: make([]Device, devices/2)}, {Devices: make([]Device, devices-devices/2)}}}
		columns, w, h := box.size()
		if columns != want.columns || w != columns*(svgCell+svgGap)+8 || h != svgNode+want.rows*(svgCell+svgGap) {
			t.Errorf("%d devices: %d columns, %d wide, %d high; want %+v", devices, columns, w, h, want)
		}
	}
}

// boxOf checks the box of one node, and returns where it is.
func boxOf(t *testing.T, node *element, devices map[string]int) image.Rectangle {
	t.Helper()
	var box image.Rectangle
	var cells []image.Rectangle
	for i := range node.Elements {
		switch e := &node.Elements[i]; e.XMLName.Local {
		case "rect":
			box = e.bounds(t)
		case "use":
			cells = append(cells, e.bounds(t))
		}
	}
	if want, found := devices[node.Title]; len(cells) != want || want > 0 && !found {
		t.Errorf("%s: %d devices are drawn, want %d", node.Title, len(cells), want)
	}
	for i, cell := range cells {
		if !cell.In(box) {
			t.Errorf("%s: device %v is not within %v", node.Title, cell, box)
		}
		for _, other := range cells[:i] {
			if cell.Overlaps(other) {
				t.Errorf("%s: device %v overlaps %v", node.Title, cell, other)
			}
		}
	}
	return box
}
