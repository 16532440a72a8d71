// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// share is a share of a device, that consumes amounts of its capacities.
func share(device int32, memory, slots string) Holding {
	h := Holding{Device: device, Share: true, Consumed: make(map[resourceapi.QualifiedName]resource.Quantity)}
	for name, amount := range map[resourceapi.QualifiedName]string{"memory": memory, "slots": slots} {
		if amount != "" {
			h.Consumed[name] = resource.MustParse(amount)
		}
	}
	return h
}

// The key of uses tells apart what any of their fields does, and Same what a question can see.
func TestKeysOfUses(t *testing.T) {
	uses := func(holdings ...Holding) Uses { return Uses(nil).Change(holdings, true) }
	withheld := uses(Holding{Device: 1})
	withheld[0].withheld = true
	for name, test := range map[string]struct {
		a, b        Uses
		equal, same bool
	}{
		"nothing":               {nil, Uses{}, true, true},
		"a device":              {uses(Holding{Device: 1}), uses(Holding{Device: 1}), true, true},
		"another device":        {uses(Holding{Device: 1}), uses(Holding{Device: 2}), false, false},
		"held twice":            {uses(Holding{Device: 1}), uses(Holding{Device: 1}, Holding{Device: 1}), false, true},
		"withheld":              {uses(Holding{Device: 1}), withheld, false, false},
		"a share":               {uses(Holding{Device: 1}), uses(share(1, "", "")), false, false},
		"one more share":        {uses(share(1, "", "")), uses(share(1, "", ""), share(1, "", "")), false, true},
		"more is consumed":      {uses(share(1, "1Gi", "")), uses(share(1, "2Gi", "")), false, false},
		"in another spelling":   {uses(share(1, "1Gi", "")), uses(share(1, "1024Mi", "")), true, true},
		"by two":                {uses(share(1, "2Gi", ""), share(1, "", "")), uses(share(1, "1Gi", ""), share(1, "1Gi", "")), true, true},
		"of another capacity":   {uses(share(1, "1", "")), uses(share(1, "", "1")), false, false},
		"of two capacities":     {uses(share(1, "1", "2")), uses(share(1, "2", "1")), false, false},
		"and given back":        {uses(share(1, "1", "2"), share(1, "1", "")).Change([]Holding{share(1, "1", "2")}, false), uses(share(1, "1", "")), true, true},
		"in the other order":    {uses(share(2, "1", ""), Holding{Device: 1}), uses(Holding{Device: 1}, share(2, "1", "")), true, true},
		"on the other device":   {uses(share(1, "1", ""), share(2, "2", "")), uses(share(1, "2", ""), share(2, "1", "")), false, false},
		"a device and its part": {uses(Holding{Device: 1}, share(2, "", "")), uses(share(1, "", ""), Holding{Device: 2}), false, false},
	} {
		keys := string(test.a.AppendKey(nil)) == string(test.b.AppendKey(nil))
		if keys != test.equal || test.a.Equal(test.b) != test.equal || test.a.Same(test.b) != test.same || test.b.Same(test.a) != test.same {
			t.Errorf("%s: keys equal %t, Equal %t, want %t; Same %t, want %t", name, keys, test.a.Equal(test.b), test.equal, test.a.Same(test.b), test.same)
		}
	}
}

// The key after many changes is that of what is held in the end.
func TestKeysOfUsesAfterChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	byKey := make(map[string]string)
	for range 3000 {
		var held []Holding
		u := Uses(nil)
		for range random.IntN(8) {
			if len(held) > 0 && random.IntN(3) == 0 {
				at := random.IntN(len(held))
				u = u.Change(held[at:at+1], false)
				held = append(held[:at:at], held[at+1:]...)
				continue
			}
			h := Holding{Device: int32(random.IntN(3))}
			if random.IntN(3) > 0 {
				h = share(h.Device, fmt.Sprint(1+random.IntN(2)), []string{"", "1"}[random.IntN(2)])
			}
			held, u = append(held, h), u.Change([]Holding{h}, true)
		}
		var dumb strings.Builder // what each device is held by, summed up
		for device := range int32(3) {
			wholes, shares, memory, slots := 0, 0, int64(0), int64(0)
			for _, h := range held {
				switch {
				case h.Device != device:
				case !h.Share:
					wholes++
				default:
					shares++
					m, s := h.Consumed["memory"], h.Consumed["slots"]
					memory, slots = memory+m.Value(), slots+s.Value()
				}
			}
			fmt.Fprintln(&dumb, wholes, shares, memory, slots)
		}
		key := string(u.AppendKey(nil))
		if known, found := byKey[key]; found && known != dumb.String() {
			t.Fatalf("one key for\n%s and for\n%s", known, dumb.String())
		}
		byKey[key] = dumb.String()
	}
	contents := make(map[string]bool)
	for _, content := range byKey {
		contents[content] = true
	}
	if len(contents) != len(byKey) || len(contents) < 100 {
		t.Errorf("%d keys for %d contents", len(byKey), len(contents))
	}
}
