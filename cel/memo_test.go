// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fleet returns devices that have a serial number each and share a few models.
func fleet(n int) []*Device {
	var all []*Device
	for i := range n {
		all = append(all, NewDevice(gpu, &resourceapi.Device{
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"uuid":  {StringValue: new(fmt.Sprintf("GPU-%d", i))},
				"model": {StringValue: new([]string{"a100", "h100"}[i%2])},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
		}))
	}
	return all
}

func TestMemoCounts(t *testing.T) {
	for expression, want := range map[string]int64{
		`device.attributes["gpu.example.com"].model.lowerAscii() != "h100"`:         2,
		`device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))`: 1,
		`"gpu.example.com" in device.attributes`:                                    1,
		`device.attributes["gpu.example.com"].uuid.lowerAscii() != "gpu-1"`:         100,
		`device.attributes["gpu.example.com"].uuid != "GPU-1"`:                      0,
		`device.attributes["gpu.example.com"].uuid == "GPU-1"`:                      0, // compared without CEL
		`device.attributes["gpu.example.com"].exists(k, k == "model")`:              100,
		`device.attributes["gpu.example.com"].missing == 1`:                         1, // errors, too
	} {
		memo, p := NewMemo(10000), selector(t, expression)
		for range 3 {
			for i, d := range fleet(100) {
				match, err := memo.Matches(t.Context(), p, d)
				again, againErr := p.Matches(t.Context(), d)
				if match != again || fmt.Sprint(err) != fmt.Sprint(againErr) {
					t.Errorf("%s: device %d: remembered %v %v, evaluated %v %v", expression, i, match, err, again, againErr)
				}
			}
		}
		if got := memo.Evaluations(); got != want {
			t.Errorf("%s: %d evaluations, want %d", expression, got, want)
		}
	}
}

func TestMemoAttribute(t *testing.T) {
	p, err := NewCache(1).Derived(`device.attributes["gpu.example.com"].model + "-x"`)
	if err != nil {
		t.Fatal(err)
	}
	memo := NewMemo(100)
	for i, d := range fleet(10) {
		got, err := memo.Attribute(t.Context(), p, d)
		if err != nil {
			t.Fatal(err)
		}
		want := &resourceapi.DeviceAttribute{StringValue: new([]string{"a100-x", "h100-x"}[i%2])}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if got := memo.Evaluations(); got != 2 {
		t.Errorf("%d evaluations, want 2", got)
	}
}

// TestMemoKeepsUsesApart: one program may serve both purposes.
func TestMemoKeepsUsesApart(t *testing.T) {
	memo, p, d := NewMemo(100), selector(t, "true"), fleet(1)[0]
	for range 2 {
		if match, err := memo.Matches(t.Context(), p, d); !match || err != nil {
			t.Errorf("got %v %v, want true", match, err)
		}
		if a, err := memo.Attribute(t.Context(), p, d); err != nil || !*a.BoolValue {
			t.Errorf("got %v %v, want true", a, err)
		}
	}
}

func TestMemoIsBounded(t *testing.T) {
	const size = 320
	memo, p := NewMemo(size), selector(t, `device.attributes["gpu.example.com"].uuid.lowerAscii() != "gpu-1"`)
	for _, d := range fleet(3000) {
		if _, err := memo.Matches(t.Context(), p, d); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := range memo.shards {
		kept += len(memo.shards[i].young) + len(memo.shards[i].old)
	}
	if kept > size || kept < size/4 {
		t.Errorf("kept %d answers, want at most %d and not too few", kept, size)
	}
}

// TestMemoKeepsWhatIsUsed: an answer that is asked for again and again survives a
// stream of answers that are not.
func TestMemoKeepsWhatIsUsed(t *testing.T) {
	memo := NewMemo(320)
	popular, rare := selector(t, `device.driver.lowerAscii() != ""`), selector(t, `device.attributes["gpu.example.com"].uuid.lowerAscii() != ""`)
	for _, d := range fleet(3000) {
		for _, p := range []*Program{popular, rare} {
			if _, err := memo.Matches(t.Context(), p, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := memo.Evaluations(); got != 3001 {
		t.Errorf("%d evaluations, want 3001", got)
	}
}

// TestConcurrentUse shares everything that can be shared. It is of most use with the race
// detector.
func TestConcurrentUse(t *testing.T) {
	cache, memo, shared := NewCache(4), NewMemo(64), []*Device{}
	for _, d := range devices() {
		shared = append(shared, NewDevice(gpu, d))
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 60 {
				expression := expressions[(worker*5+i)%len(expressions)]
				if len(expression) > 400 {
					continue // takes long to compile
				}
				p, err := cache.Selector(expression)
				if err != nil {
					continue
				}
				for _, d := range shared {
					match, err := memo.Matches(t.Context(), p, d)
					again, againErr := p.Matches(t.Context(), d)
					if match != again || (err != nil) != (againErr != nil) {
						t.Errorf("%s: remembered %v %v, evaluated %v %v", expression, match, err, again, againErr)
					}
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkMemoHit(b *testing.B) {
	memo, p, all := NewMemo(100), selector(b, `device.attributes["gpu.example.com"].model != "h100"`), fleet(1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := memo.Matches(b.Context(), p, all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for name, expression := range map[string]string{
		"attribute": `device.attributes["gpu.example.com"].model != "h100"`,
		"equal":     `device.attributes["gpu.example.com"].model == "h100"`,
		"capacity":  `device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))`,
	} {
		b.Run(name, func(b *testing.B) {
			p, all := selector(b, expression), fleet(1000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := p.Matches(b.Context(), all[i%len(all)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
