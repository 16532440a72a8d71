// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
)

// listed is what a refused says: "reason: nodes" for each, with a star where an answer explains it.
func listed(refused *NodeRefusals) []string {
	var list []string
	for _, r := range refused.List() {
		star := ""
		if r.Example != nil {
			star = "*"
		}
		list = append(list, r.Reason+star+": "+strings.Join(r.Nodes, " "))
	}
	return list
}

// Nodes that were refused for the same are listed together, each once and by name. What concerns no node is not listed.
func TestNodeRefusals(t *testing.T) {
	none := &allocator.Unsatisfiable{}
	for name, test := range map[string]struct {
		write func(*NodeRefusals)
		want  []string
	}{
		"nothing": {func(*NodeRefusals) {}, nil},
		"one reason": {func(b *NodeRefusals) {
			b.Add("asked", "r", Other, "c")
			b.Add("asked", "r", Other, "a")
			b.Add("asked", "r", Other, "c")
			b.Add("asked", "r", Other, "b")
		}, []string{"r: a b c"}},
		"several reasons": {func(b *NodeRefusals) {
			b.Add("asked", "r", Other, "b")
			b.Add("asked", "s", Other, "c")
			b.Add("asked", "s", Other, "a")
		}, []string{"s: a c", "r: b"}},
		"several questions": {func(b *NodeRefusals) {
			b.Add("asked", "r", Other, "b")
			b.Add("something else", "r", Other, "a")
		}, []string{"r: a", "r: b"}},
		"what would be": {func(b *NodeRefusals) { b.Add("asked", "r", Other, "") }, nil},
		"answers": {func(b *NodeRefusals) {
			b.AddAnswer("asked", none, 1, "r", "b")
			b.AddKnown("asked", 1, "a")
			b.AddAnswer("asked", none, 2, "s", "c")
			b.AddKnown("asked", 3, "d")
			b.AddKnown("something else", 1, "e")
		}, []string{"r*: a b", "s*: c"}},
		"the first answer counts": {func(b *NodeRefusals) {
			b.AddAnswer("asked", none, 1, "r", "a")
			b.AddAnswer("asked", none, 1, "s", "b")
		}, []string{"r*: a b"}},
	} {
		refused := NewNodeRefusals()
		test.write(refused)
		for range 2 { // listing changes nothing
			if got := listed(refused); !slices.Equal(got, test.want) {
				t.Errorf("%s: %q, want %q", name, got, test.want)
			}
		}
	}
}

// Who asks gets the reason back that is recorded.
func TestReasonsThatAreReturned(t *testing.T) {
	refused, none := NewNodeRefusals(), &allocator.Unsatisfiable{}
	if reason, known := refused.AddKnown("asked", 1, "a"); known || reason != "" {
		t.Errorf("an empty collection knows %q", reason)
	}
	if got := refused.AddAnswer("asked", none, 1, "r", "a"); got != "r" {
		t.Errorf("against a node: %q", got)
	}
	if reason, known := refused.AddKnown("asked", 1, "b"); !known || reason != "r" {
		t.Errorf("a node like the first one: %q, %t", reason, known)
	}
	if got := refused.Add("asked", "s", Error, "c"); got != "s" {
		t.Errorf("for a reason: %q", got)
	}
	for i := refused.reasons.Len(); i < maxReasons; i++ {
		if reason := fmt.Sprint("reason ", i); refused.Add("asked", reason, Error, "d") != reason {
			t.Errorf("%s is one too many", reason)
		}
	}
	if got := refused.Add("asked", "one more", Error, "e"); got != Error {
		t.Errorf("one more reason: %q", got)
	}
	if got := refused.AddAnswer("asked", none, 2, "one more", "f"); got != Other {
		t.Errorf("one more answer: %q", got)
	}
	if got := refused.Add("asked", "r", Error, "g"); got != "r" {
		t.Errorf("a reason that was given before: %q", got)
	}
}

// What may cure a pod is said by what stood in the way on any node.
func TestEndings(t *testing.T) {
	one := &allocator.Unsatisfiable{}
	for name, test := range map[string]struct {
		refusals []*Refusal
		gaveUp   bool
		want     Ending
	}{
		"no node":                       {nil, false, Ending{}},
		"in use":                        {[]*Refusal{{Reason: "in use", Example: one}}, false, Ending{}},
		"set aside":                     {[]*Refusal{{Reason: SetAside}}, false, Ending{DevicesSetAside: true}},
		"short of CPU":                  {[]*Refusal{{Reason: Short + "Insufficient cpu"}}, false, Ending{NodeResourceShort: true}},
		"one of many reasons":           {[]*Refusal{{Reason: Other, Example: one}}, false, Ending{SliceRemovalHelps: true}},
		"an unusable pool":              {[]*Refusal{{Reason: "none left" + unusablePrefix + "invalid pools", Example: one}}, false, Ending{SliceRemovalHelps: true}},
		"an error":                      {[]*Refusal{{Reason: "no such key"}}, false, Ending{SliceRemovalHelps: true, DeviceUseHelps: true}},
		"not explained":                 {[]*Refusal{{Reason: Unexplained}}, false, Ending{SliceRemovalHelps: true}},
		"an error among others":         {[]*Refusal{{Reason: "no such key"}, {Reason: "in use", Example: one}, {Reason: Unexplained}, {Reason: SetAside}}, false, Ending{DevicesSetAside: true, SliceRemovalHelps: true, DeviceUseHelps: true}},
		"a search that does not matter": {[]*Refusal{{Reason: Undecided}, {Reason: Timeout}}, false, Ending{}},
		"a search that does":            {[]*Refusal{{Reason: Timeout}}, true, Ending{SliceRemovalHelps: true, DeviceUseHelps: true, Undecided: 1}},
	} {
		endings := NewEndings()
		if last, known := endings.Of("p"); known || !last.DevicesSetAside || !last.SliceRemovalHelps || last.DeviceUseHelps || endings.Undecided("p") != 0 {
			t.Errorf("%s: before the first attempt: %+v, known %t", name, last, known)
		}
		pod := podNamed("p")
		got := endings.End(pod, Attempt{Refusals: test.refusals, GaveUp: test.gaveUp})
		if last, known := endings.Of("p"); got != test.want || !known || last != got || endings.Undecided("p") != test.want.Undecided {
			t.Errorf("%s: it ended %+v, and is remembered as %+v; want %+v", name, got, last, test.want)
		}
		if got := endings.End(pod, Attempt{LowerInFlight: true}); got != (Ending{LowerInFlight: true, DeviceUseHelps: true}) {
			t.Errorf("%s: with a pod in flight it ended %+v", name, got)
		}
		if _, known := endings.Of("q"); known {
			t.Errorf("%s: of another pod", name)
		}
	}
}

// Attempts in a row are counted, and begin anew with one that is decided.
func TestUndecidedInARow(t *testing.T) {
	endings, pod := NewEndings(), podNamed("p")
	for i, gaveUp := range []bool{true, true, true, false, true} {
		endings.End(pod, Attempt{GaveUp: gaveUp})
		if got, want := endings.Undecided("p"), []int{1, 2, 3, 0, 1}[i]; got != want {
			t.Errorf("after attempt %d: %d in a row, want %d", i+1, got, want)
		}
	}
}

// Pods that are listed are named, and those that do not wait any more are asked for once.
func TestPodsHelpedByUseThatWait(t *testing.T) {
	endings := NewEndings()
	for _, name := range []string{"a", "b", "c"} {
		endings.End(podNamed(name), Attempt{GaveUp: name != "b"})
	}
	asked := 0
	waits := func(name types.NamespacedName, uid types.UID) bool {
		asked++
		return name.Namespace == "ns" && string(uid) == name.Name && name.Name != "c"
	}
	for i, want := range []int{2, 3} {
		if got := endings.PodsHelpedByUse(waits); len(got) != 1 || got[0].String() != "ns/a" || asked != want {
			t.Errorf("list %d: %v, and %d questions, want %d", i+1, got, asked, want)
		}
	}
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
}
