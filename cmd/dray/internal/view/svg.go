// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// Sizes of the drawing, in pixels.
const (
	svgCell   = 12
	svgGap    = 2
	svgNode   = 22 // height of a node without devices
	svgTitle  = 24
	svgMargin = 12
	svgWidth  = 1000
	// maxDrawn is the maximum number of devices in a drawing.
	maxDrawn = 100_000
)

// svgStates has colour and sign of each state, as on the page. Signs are drawn in a box of size one
// by one.
var svgStates = []struct{ state, name, colour, sign string }{
	{Free, "free", "#2e8b57", ""},
	{Used, "held", "#3565a8", "M0 0H1V1H0Z"},
	{Shared, "shared in part", "#7356bf", "M0 0V1H1Z"},
	{Blocked, "blocked", "#77818c", ""},
	{Tainted, "tainted", "#b45309", ""},
	{Unusable, "unusable", "#b3261e", "M.42 .15H.58V.6H.42ZM.42 .7H.58V.86H.42Z"},
	{Unreached, "not reachable", "#66717d", ""},
}

// drawing writes SVG.
type drawing struct {
	out  *bufio.Writer
	y    int
	room int // number of devices that may still be drawn
}

// WriteSVG draws the map of a picture: nodes by kind, their devices, and a legend. The SVG has no
// scripts and no external references.
func WriteSVG(out io.Writer, p *Picture) error {
	var body strings.Builder
	d := &drawing{out: bufio.NewWriter(&body), y: svgMargin, room: maxDrawn}
	d.legend(p)
	for _, group := range p.svgGroups() {
		d.group(group)
	}
	if err := d.out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>%s</title>
<rect width="100%%" height="100%%" fill="#f4f6f8"/>
<defs>%s</defs>
%s</svg>
`, svgWidth, d.y+svgMargin, svgWidth, d.y+svgMargin, escaped("Devices of "+p.Source), svgSymbols(), body.String())
	return err
}

// svgSymbols returns the definitions of the signs.
func svgSymbols() string {
	var b strings.Builder
	for _, s := range svgStates {
		fmt.Fprintf(&b, `<symbol id="%s" viewBox="-.05 -.05 1.1 1.1"><g stroke="%s" stroke-width=".1" fill="%s">`, s.state, s.colour, s.colour)
		outline := `<path fill="none" d="M.05 .05H.95V.95H.05Z"/>`
		switch s.state {
		case Blocked:
			b.WriteString(outline + `<path d="M.05 .05L.95 .95M.95 .05L.05 .95"/>`)
		case Tainted:
			b.WriteString(outline + `<path d="M0 .45L.45 0M0 1L1 0M.55 1L1 .55"/>`)
		case Unreached:
			b.WriteString(`<path fill="none" stroke-dasharray=".2 .15" d="M.05 .05H.95V.95H.05Z"/>`)
		default:
			b.WriteString(outline)
			if s.sign != "" {
				fmt.Fprintf(&b, `<path stroke="none" d="%s"/>`, s.sign)
			}
		}
		b.WriteString("</g></symbol>")
	}
	return b.String()
}

// svgGroup is a group of boxes: nodes of one kind, or pools that several nodes reach.
type svgGroup struct {
	title string
	boxes []svgBox
}

type svgBox struct {
	name  string
	pools []*Pool
	gone  bool // cordoned
}

// svgGroups returns the pools of several nodes, and then the kinds of nodes, the most frequent
// first.
func (p *Picture) svgGroups() []svgGroup {
	lanes := svgGroup{title: "pools that several nodes reach, or none"}
	for i := range p.Pools {
		if pool := &p.Pools[i]; len(pool.Nodes) != 1 {
			lanes.boxes = append(lanes.boxes, svgBox{name: pool.Name, pools: []*Pool{pool}})
		}
	}
	kinds := make(map[string]*svgGroup)
	var order []*svgGroup
	for i := range p.Nodes {
		node := &p.Nodes[i]
		group := kinds[node.Kind]
		if group == nil {
			group = &svgGroup{title: node.Kind}
			kinds[node.Kind] = group
			order = append(order, group)
		}
		box := svgBox{name: node.Name, gone: node.Cordoned}
		for _, at := range node.pools {
			box.pools = append(box.pools, &p.Pools[at])
		}
		group.boxes = append(group.boxes, box)
	}
	slices.SortStableFunc(order, func(a, b *svgGroup) int { return cmp.Compare(len(b.boxes), len(a.boxes)) })
	var groups []svgGroup
	if len(lanes.boxes) > 0 {
		groups = append(groups, lanes)
	}
	for _, group := range order {
		groups = append(groups, *group)
	}
	return groups
}

func (d *drawing) legend(p *Picture) {
	counts := make(map[string]int)
	total := 0
	for i := range p.Pools {
		for k := range p.Pools[i].Devices {
			counts[p.Pools[i].Devices[k].State]++
			total++
		}
	}
	title := render.Count(len(p.Nodes), "node") + ", " + render.Count(total, "device")
	fmt.Fprintf(d.out, `<text x="%d" y="%d" font-weight="600">%s</text>`+"\n", svgMargin, d.y+12, escaped(title))
	x := svgMargin + 9*len(title)
	for _, s := range svgStates {
		if counts[s.state] == 0 {
			continue
		}
		text := fmt.Sprintf("%s %d", s.name, counts[s.state])
		fmt.Fprintf(d.out, `<use href="#%s" x="%d" y="%d" width="%d" height="%d"/><text x="%d" y="%d">%s</text>`+"\n",
			s.state, x, d.y+2, svgCell, svgCell, x+svgCell+5, d.y+12, escaped(text))
		x += svgCell + 24 + 7*len(text)
	}
	d.y += svgTitle
}

// group draws boxes in rows, from left to right.
func (d *drawing) group(g svgGroup) {
	fmt.Fprintf(d.out, `<text x="%d" y="%d" font-weight="600">%s</text>`+"\n", svgMargin, d.y+16, escaped(fmt.Sprintf("%s · %d", g.title, len(g.boxes))))
	d.y += svgTitle
	x, row := svgMargin, 0
	for i := range g.boxes {
		box := &g.boxes[i]
		columns, w, h := box.size()
		if x > svgMargin && x+w > svgWidth-svgMargin {
			x, d.y, row = svgMargin, d.y+row+6, 0
		}
		if !d.box(box, x, columns, w, h) {
			fmt.Fprintf(d.out, `<text x="%d" y="%d">and %d more</text>`+"\n", svgMargin, d.y+16, len(g.boxes)-i)
			row = max(row, svgNode)
			break
		}
		x, row = x+w+6, max(row, h)
	}
	d.y += row + 8
}

// size is twice as wide as it is high, if the drawing is so wide.
func (b *svgBox) size() (columns, w, h int) {
	const most = (svgWidth - 2*svgMargin - 8) / (svgCell + svgGap)
	n := 0
	for _, pool := range b.pools {
		n += len(pool.Devices)
	}
	columns = min(max(6, int(math.Ceil(math.Sqrt(float64(n)*2)))), most)
	rows := (n + columns - 1) / columns
	return columns, columns*(svgCell+svgGap) + 8, svgNode + rows*(svgCell+svgGap)
}

// box draws a node. It returns false if there are too many devices.
func (d *drawing) box(b *svgBox, x, columns, w, h int) bool {
	if d.room <= 0 {
		return false
	}
	name := b.name
	if b.gone {
		name = "⊘ " + name
	}
	fmt.Fprintf(d.out, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" fill="#fff" stroke="#b8c2cc"/><text x="%d" y="%d" font-size="10">%s</text>`,
		escaped(name), x, d.y, w, h, x+4, d.y+12, escaped(shortened(name, (w-8)/6)))
	at := 0
	for _, pool := range b.pools {
		for i := range pool.Devices {
			device := &pool.Devices[i]
			fmt.Fprintf(d.out, `<use href="#%s" x="%d" y="%d" width="%d" height="%d"><title>%s</title></use>`, device.State,
				x+4+at%columns*(svgCell+svgGap), d.y+17+at/columns*(svgCell+svgGap), svgCell, svgCell, escaped(tip(pool, device)))
			at++
			d.room--
		}
	}
	fmt.Fprintln(d.out, "</g>")
	return true
}

// tip returns the tooltip of a device.
func tip(pool *Pool, device *Device) string {
	text := device.Name + ": " + device.State
	var claims []string
	for _, held := range device.Held {
		claims = append(claims, held.Claim)
	}
	if len(claims) > 0 {
		text += ", held by " + strings.Join(slices.Compact(claims), ", ")
	}
	for _, why := range []string{device.BlockedBy, pool.Problem, strings.Join(device.Taints, ", ")} {
		if why != "" {
			text += "; " + why
		}
	}
	return text
}

func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// escaped returns text without markup, and without characters that reverse the direction of text.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(render.Printable(text))) // a strings.Builder returns no errors
	return b.String()
}
