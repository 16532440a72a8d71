// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cmd/dray/internal/input"
)

func shortOfCPU(left, total string) reason {
	return tooLittle(shortage{"cpu", resource.MustParse("9"), resource.MustParse(left), resource.MustParse(total)})
}

func lacking(lacks, has string) reason { return reason{lacks: lacks, has: has} }

// TestLack has what is said of one node, of nodes that say the same, and of nodes that differ.
func TestLack(t *testing.T) {
	for name, c := range map[string]struct {
		reasons []reason
		want    string
	}{
		"one":               {[]reason{because("it is cordoned")}, "it is cordoned"},
		"one with more":     {[]reason{lacking("no label", "zone=a")}, "no label; the node has zone=a"},
		"one of its own":    {[]reason{{lacks: "a", has: "b", alone: "c"}}, "c"},
		"too little":        {[]reason{shortOfCPU("2", "8")}, "too little cpu: the pod asks for 9, and 2 of 8 is left"},
		"alike":             {[]reason{shortOfCPU("2", "8"), shortOfCPU("2", "8")}, "too little cpu: the pod asks for 9, and 2 of 8 is left"},
		"other amounts":     {[]reason{shortOfCPU("3", "8"), shortOfCPU("1", "8"), shortOfCPU("5", "8")}, "too little cpu: the pod asks for 9, and 1 to 5 of 8 is left"},
		"other totals":      {[]reason{shortOfCPU("3", "8"), shortOfCPU("1", "4")}, "too little cpu: the pod asks for 9, and 1 to 3 is left"},
		"totals alone":      {[]reason{shortOfCPU("3", "8"), shortOfCPU("3", "4")}, "too little cpu: the pod asks for 9, and 3 is left"},
		"alone and another": {[]reason{{lacks: "a", alone: "c"}, {lacks: "a", alone: "d"}}, "a"},
		"other values":      {[]reason{lacking("no label", "a"), lacking("no label", "b"), lacking("no label", "b")}, "no label; the nodes have b (2), a (1)"},
		"four values":       {[]reason{lacking("l", "a"), lacking("l", "b"), lacking("l", "c"), lacking("l", "d")}, "l; the nodes have a (1), b (1), c (1), d (1)"},
		"many values": {
			[]reason{lacking("l", "a"), lacking("l", "b"), lacking("l", "c"), lacking("l", "d"), lacking("l", "e"), lacking("l", "f"), lacking("l", "f")},
			"l; the nodes have f (2), a (1), b (1), c (1), something else (2)",
		},
	} {
		l := &lack{}
		for i := range c.reasons {
			l.add(&Refusal{Node: fmt.Sprint("n", i), reason: &c.reasons[i]})
		}
		if got := l.String(); got != c.want || len(l.nodes) != len(c.reasons) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	l := &lack{}
	for i, left := range []string{"3", "5", "1"} {
		r := shortOfCPU(left, "8")
		l.add(&Refusal{Node: fmt.Sprint("n", i), reason: &r})
	}
	if got := l.closest().Node; got != "n1" {
		t.Errorf("the closest is %s, want n1", got)
	}
	if empty := because("x"); empty.empty() || !(reason{has: "x"}).empty() {
		t.Error("a reason is empty if nothing is lacking")
	}
}

// TestMissed has the words for a preference that is not met, and which of two placements misses less.
func TestMissed(t *testing.T) {
	for want, m := range map[string]Missed{
		"preferred matchAttribute a/b across claims":                                          {MatchAttribute: "a/b"},
		"preferred matchAttribute a/b of claim c":                                             {MatchAttribute: "a/b", Claim: "c"},
		"preferred matchAttribute a/b of claim c, request r, s":                               {MatchAttribute: "a/b", Claim: "c", Requests: []string{"r", "s"}},
		"preferred matchAttribute a/b of claim c (undecided: raise --budget to search on)":    {MatchAttribute: "a/b", Claim: "c", Undecided: true},
		"preferred matchAttribute a/b across claims (undecided: raise --budget to search on)": {MatchAttribute: "a/b", Requests: []string{"r"}, Undecided: true},
	} {
		if got := m.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	ranks := func(list ...int) (missed []Missed) {
		for _, rank := range list {
			missed = append(missed, Missed{rank: rank})
		}
		return missed
	}
	for _, c := range []struct {
		a, b []Missed
		want int
	}{
		{nil, nil, 0}, {nil, ranks(5), -1}, {ranks(5), nil, 1}, {ranks(1), ranks(1), 0}, {ranks(2), ranks(1), -1}, {ranks(1, 2), ranks(1, 3), 1}, {ranks(1), ranks(1, 2), -1}, {ranks(2, 3), ranks(1), -1},
	} {
		if got := misses(c.a, c.b); got != c.want {
			t.Errorf("%v against %v: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestParseTaint(t *testing.T) {
	for text, want := range map[string]string{
		"k:NoSchedule": "k||NoSchedule", "k=v:NoExecute": "k|v|NoExecute", "a/k=:None": "a/k||None", "k=v=w:None": "k|v=w|None",
		"k": `"k": want KEY[=VALUE]:EFFECT`, ":None": `":None": want KEY[=VALUE]:EFFECT`, "=v:None": `"=v:None": want KEY[=VALUE]:EFFECT`, "": `"": want KEY[=VALUE]:EFFECT`,
		"k:": `"k:": unknown effect "": want NoSchedule, NoExecute or None`, "k:PreferNoSchedule": `"k:PreferNoSchedule": unknown effect "PreferNoSchedule": want NoSchedule, NoExecute or None`,
	} {
		taint, err := ParseTaint(text)
		got := fmt.Sprintf("%s|%s|%s", taint.Key, taint.Value, taint.Effect)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestTaintRules has the rules that add a taint to a device: those whose selector covers it, and whose taint is the same.
func TestTaintRules(t *testing.T) {
	taint := resourceapi.DeviceTaint{Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	selectors := map[string]*resourceapi.DeviceTaintSelector{
		"all": {}, "nothing": nil, "driver": {Driver: ptr.To("d")}, "pool": {Pool: ptr.To("p")}, "device": {Device: ptr.To("x")}, "exact": {Driver: ptr.To("d"), Pool: ptr.To("p"), Device: ptr.To("x")},
		"other driver": {Driver: ptr.To("e")}, "other pool": {Driver: ptr.To("d"), Pool: ptr.To("q")}, "other device": {Pool: ptr.To("p"), Device: ptr.To("y")},
	}
	for name, selector := range selectors {
		c := &Cluster{objects: &input.Objects{TaintRules: []*resourceapi.DeviceTaintRule{{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: taint}}}}}
		c.objects.TaintRules[0].Name = name
		covers := map[string]bool{"all": true, "driver": true, "pool": true, "device": true, "exact": true}[name]
		if got := c.TaintRules("d", "p", "x", &taint); (len(got) == 1 && got[0] == name) != covers || len(got) > 1 {
			t.Errorf("%s: got %q", name, got)
		}
		for _, change := range []func(*resourceapi.DeviceTaint){
			func(t *resourceapi.DeviceTaint) { t.Key = "l" }, func(t *resourceapi.DeviceTaint) { t.Value = "" }, func(t *resourceapi.DeviceTaint) { t.Effect = resourceapi.DeviceTaintEffectNoExecute },
		} {
			other := taint
			change(&other)
			if got := c.TaintRules("d", "p", "x", &other); len(got) > 0 {
				t.Errorf("%s: %v is said to be added by %q", name, other, got)
			}
		}
	}
}

// TestStateOfDevices has the word for what a device is, by what counts first.
func TestStateOfDevices(t *testing.T) {
	held := []HolderState{{Claim: "ns/c"}}
	for _, c := range []struct {
		pool   PoolState
		device DeviceState
		want   string
	}{
		{PoolState{}, DeviceState{}, "free"}, {PoolState{}, DeviceState{Shared: true}, "free"}, {PoolState{}, DeviceState{Blocked: "b"}, "blocked"},
		{PoolState{}, DeviceState{Holders: held}, "used"}, {PoolState{}, DeviceState{Holders: held, Shared: true}, "shared"}, {PoolState{}, DeviceState{Holders: held, Blocked: "b"}, "used"},
		{PoolState{Incomplete: "i"}, DeviceState{Holders: held}, "unusable"}, {PoolState{Invalid: "i"}, DeviceState{}, "unusable"},
	} {
		if got := c.pool.State(&c.device); got != c.want {
			t.Errorf("%+v in %+v: got %s, want %s", c.device, c.pool, got, c.want)
		}
	}
}
