// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth   = 6.5 * vg.Inch
	legendWidth = 3.2 * vg.Inch
	plotHeight  = 4 * vg.Inch
)

// saveBeside writes a plot with its legend at the right side, so that there is room for many
// curves.
func saveBeside(p *plot.Plot, legend plot.Legend, entries int, file string) error {
	height := max(plotHeight, vg.Length(entries)*vg.Points(15))
	canvas := vgsvg.New(plotWidth+legendWidth, height)
	layOut(draw.New(canvas), p, legend)
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return fmt.Errorf("plot %s: %w", file, err)
	}
	return os.WriteFile(file, drawn.Bytes(), 0o644)
}

func layOut(whole draw.Canvas, p *plot.Plot, legend plot.Legend) {
	// the page may have a dark background
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	p.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	legend.Top, legend.Left, legend.XOffs = true, true, vg.Points(8)
	legend.Draw(draw.Crop(whole, plotWidth, 0, 0, -vg.Points(20)))
}
