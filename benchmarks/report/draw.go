// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"strconv"

	"github.com/dray-project/dray/benchmarks"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is one line of a plot.
type curve struct {
	name   string
	points plotter.XYs
}

// at adds a point if it was measured and is not zero, which a logarithmic scale cannot show.
func (c *curve) at(m *measurements, path, implementation, unit string, x int) {
	if y, ok := m.get(path, implementation, unit); ok && y > 0 {
		c.points = append(c.points, plotter.XY{X: float64(x), Y: y})
	}
}

// drawAll writes all plots to a folder.
func drawAll(m *measurements, folder string) error {
	if err := save(fleetPlot(), fleetCurves(m), filepath.Join(folder, "fleet.svg")); err != nil {
		return err
	}
	return save(cliffPlot(), cliffCurves(m), filepath.Join(folder, "cliffs.svg"))
}

func fleetPlot() *plot.Plot {
	p := plot.New()
	p.Title.Text = "One pod on a fleet of which 90 % of the GPUs are in use"
	p.X.Label.Text = "nodes"
	p.X.Tick.Marker = ticks(100, 1000, 5000)
	p.Y.Label.Text = "CPU time per pod [s]"
	return p
}

func ticks(at ...int) plot.ConstantTicks {
	var all plot.ConstantTicks
	for _, x := range at {
		all = append(all, plot.Tick{Value: float64(x), Label: strconv.Itoa(x)})
	}
	return all
}

func fleetCurves(m *measurements) []curve {
	var curves []curve
	for _, line := range []struct {
		name, implementation string
		pod                  benchmarks.Pod
	}{
		{"upstream", upstream, benchmarks.SelectorPod},
		{"facade, new selector", facade, benchmarks.SelectorPod},
		{"facade, next pod", facade, benchmarks.NextPod},
		{"Dray, new selector", own, benchmarks.SelectorPod},
		{"Dray, next pod", own, benchmarks.NextPod},
	} {
		c := curve{name: line.name}
		for _, nodes := range []int{100, 1000, 5000} {
			c.at(m, fmt.Sprintf("fleet/state=used/nodes=%d/pod=%s", nodes, line.pod), line.implementation, cpuPerOp, nodes)
		}
		curves = append(curves, c)
	}
	return curves
}

func cliffPlot() *plot.Plot {
	p := plot.New()
	p.Title.Text = "Steps to decide a cliff"
	p.X.Label.Text = "K"
	p.X.Tick.Marker = ticks(2, 4, 8, 16, 32, 64, 128)
	p.Y.Label.Text = "steps"
	return p
}

func cliffCurves(m *measurements) []curve {
	var curves []curve
	for _, cliff := range benchmarks.Cliffs() {
		c := curve{name: readable(cliff.Name)}
		for _, k := range cliff.Sizes {
			c.at(m, fmt.Sprintf("cliff=%s/K=%d", cliff.Name, k), own, steps, k)
		}
		curves = append(curves, c)
	}
	return curves
}

// save draws curves on logarithmic scales, with a legend beside them.
func save(p *plot.Plot, curves []curve, file string) error {
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	legend, drawn, err := addCurves(p, curves)
	if err != nil {
		return err
	}
	if drawn == 0 {
		return fmt.Errorf("%s: nothing was measured", file)
	}
	return saveBeside(p, legend, drawn, file)
}

func addCurves(p *plot.Plot, curves []curve) (legend plot.Legend, drawn int, err error) {
	legend = plot.NewLegend()
	for _, c := range curves {
		if len(c.points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(c.points)
		if err != nil {
			return legend, drawn, fmt.Errorf("curve %s: %w", c.name, err)
		}
		style(line, marks, drawn)
		drawn++
		p.Add(line, marks)
		legend.Add(c.name, line, marks)
	}
	return legend, drawn, nil
}

// shades are colours that most readers can distinguish.
var shades = func() []color.Color {
	p, err := brewer.GetPalette(brewer.TypeQualitative, "Dark2", 8)
	if err != nil {
		panic(err)
	}
	return p.Colors()
}()

func style(line *plotter.Line, marks *plotter.Scatter, i int) {
	line.Color = shades[i%len(shades)]
	line.Width = vg.Points(1.5)
	line.Dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}[i/len(shades)%3]
	marks.Color = line.Color
	marks.Shape = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}}[i/len(shades)%4]
}
