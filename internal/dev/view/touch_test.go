// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"math"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// point is a place on the page, in pixels.
type point struct{ x, y float64 }

// touch sends what a screen sends: where all fingers are that touch it.
func (o *tab) touch(kind input.TouchType, fingers ...point) {
	o.Helper()
	points := []*input.TouchPoint{}
	for i, f := range fingers {
		points = append(points, &input.TouchPoint{X: f.x, Y: f.y, ID: float64(i + 1)})
	}
	o.run(input.DispatchTouchEvent(kind, points))
}

// tipOf goes to something on the map by keys, and returns where on the page its tip is.
func (o *tab) tipOf(keys ...string) point {
	o.Helper()
	o.keys(append([]string{kb.ArrowLeft, kb.ArrowLeft, kb.Home}, keys...)...)
	o.until(`!document.querySelector(".tip").hidden`)
	at := value[[]float64](o, `(({left, top}) => [left, top])(document.querySelector(".tip").getBoundingClientRect())`)
	return point{at[0], at[1]}
}

// Two fingers zoom the map about the one that rests, one finger moves it, and a tap selects what is there.
func TestTouch(t *testing.T) {
	o := open(t, serve(t, "-f", manifest(t, everyState)), 1280, 800)
	o.untilText(".legend", "9 devices")
	o.fill("Group by", "label:rack")
	first := []string{kb.ArrowDown, kb.ArrowRight, kb.ArrowRight}             // gpu.example.com/a/open
	last := append(first[:len(first):len(first)], kb.ArrowDown, kb.ArrowDown) // gpu.example.com/a/sick
	apart := func() (point, float64) {
		from, to := o.tipOf(first...), o.tipOf(last...)
		return from, math.Hypot(to.x-from.x, to.y-from.y)
	}
	corner, before := apart()
	// The tip is 14 pixels from the corner of its device.
	rest := point{corner.x - 14 - 3, corner.y - 14 - 3}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 2 {
			t.Errorf("%s: %.1f pixels, want %.1f", what, got, want)
		}
	}
	pinch := func(from, to float64) {
		t.Helper()
		other := point{rest.x + from, rest.y}
		o.touch(input.TouchStart, rest)
		o.touch(input.TouchStart, rest, other)
		for range 10 {
			other.x += (to - from) / 10
			o.touch(input.TouchMove, rest, other)
		}
		o.touch(input.TouchEnd, rest)
		o.touch(input.TouchEnd)
	}
	pinch(200, 100)
	at, half := apart()
	near("two devices, after fingers came together", half, before/2)
	near("the place of the finger that rests, across", at.x-rest.x, 14+3.0/2)
	near("the place of the finger that rests, down", at.y-rest.y, 14+3.0/2)

	pinch(100, 200)
	at, again := apart()
	near("two devices, after fingers went apart", again, before)
	near("the corner, across", at.x, corner.x)
	near("the corner, down", at.y, corner.y)

	o.touch(input.TouchStart, rest)
	for step := range 5 {
		o.touch(input.TouchMove, point{rest.x + float64(step+1)*8, rest.y + float64(step+1)*4})
	}
	o.touch(input.TouchEnd)
	at = o.tipOf(first...)
	near("one finger, across", at.x, corner.x+40)
	near("one finger, down", at.y, corner.y+20)
	if !value[bool](o, `document.querySelector(".panel").hidden`) {
		t.Error("fingers that moved have selected something")
	}

	o.touch(input.TouchStart, point{rest.x + 40, rest.y + 20})
	o.touch(input.TouchEnd)
	o.untilText(".panel h2", "Device open")
}
