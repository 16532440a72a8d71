// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lists

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newNode is an object with one of a few names. Its label tells it from others of the name.
func newNode(r *rand.Rand, names int) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Namespace = fmt.Sprint("node-", r.IntN(names)), []string{"", "a"}[r.IntN(2)]
	n.Labels = map[string]string{"moves": fmt.Sprint(r.IntN(3) == 0)}
	return n
}

func newNodes(r *rand.Rand, most, names int) []*corev1.Node {
	list := make([]*corev1.Node, r.IntN(most+1))
	for i := range list {
		list[i] = newNode(r, names)
	}
	return list
}

// lastByName leaves out what another object of the same name follows, the slow way.
func lastByName(list []*corev1.Node) []*corev1.Node {
	var last []*corev1.Node
	for i, o := range list {
		if !slices.ContainsFunc(list[i+1:], func(other *corev1.Node) bool { return Key(other) == Key(o) }) {
			last = append(last, o)
		}
	}
	return last
}

// afterSlowly makes one change after the other.
func afterSlowly(list []*corev1.Node, changes []Change[*corev1.Node], stays func(before, after *corev1.Node) bool) []*corev1.Node {
	list = slices.Clone(list)
	find := func(o *corev1.Node) int {
		return slices.IndexFunc(list, func(other *corev1.Node) bool { return Key(other) == Key(o) })
	}
	for _, c := range changes {
		for _, o := range c.Gone {
			if at := find(o); at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
		}
		for _, o := range c.Set {
			at := find(o)
			if at >= 0 && (stays == nil || stays(list[at], o)) {
				list[at] = o
				continue
			}
			if at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
			list = append(list, o)
		}
	}
	return list
}

func TestLastOfEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dropped := 0
	for range 5000 {
		list := newNodes(r, 8, 4)
		before := slices.Clone(list)
		got, want := LastOfEach(list), lastByName(list)
		if !slices.Equal(got, want) || !slices.Equal(list, before) {
			t.Fatalf("of %v: %v, want %v", list, got, want)
		}
		if dropped += len(list) - len(want); len(got) > 0 {
			if got[0] = nil; !slices.Equal(list, before) {
				t.Fatal("the list shares memory with the one given")
			}
		}
	}
	if dropped == 0 {
		t.Error("no name was there twice")
	}
}

// After compares with one change after the other, on lists without and with names that are there twice.
func TestAfter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := make(map[string]int)
	for step := range 20_000 {
		list := lastByName(newNodes(r, 10, 6))
		changes := make([]Change[*corev1.Node], r.IntN(4))
		for i := range changes {
			changes[i] = Change[*corev1.Node]{Gone: newNodes(r, 2, 6), Set: newNodes(r, 3, 6)}
		}
		stays := func(_, after *corev1.Node) bool { return after.Labels["moves"] == "false" }
		if step%3 == 0 {
			stays = nil
		}
		before := slices.Clone(list)
		got, want := After(list, changes, stays), afterSlowly(list, changes, stays)
		if !slices.Equal(got, want) || !slices.Equal(list, before) {
			t.Fatalf("step %d: %v and %v: %v, want %v", step, list, changes, got, want)
		}
		switch {
		case len(want) > len(list):
			seen["longer"]++
		case len(want) < len(list):
			seen["shorter"]++
		case slices.Equal(want, list):
			seen["equal"]++
		}
	}
	if len(seen) < 3 {
		t.Errorf("too little was seen: %v", seen)
	}
}

// If a changed name occurs several times in a list, the last object counts.
func TestAfterOfTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	touched := 0
	for range 5000 {
		list, set := newNodes(r, 6, 3), newNode(r, 3)
		got := After(list, []Change[*corev1.Node]{{Set: []*corev1.Node{set}}}, nil)
		var want []*corev1.Node
		found := false
		for i, o := range list {
			switch {
			case Key(o) != Key(set):
				want = append(want, o)
			case !slices.ContainsFunc(list[i+1:], func(other *corev1.Node) bool { return Key(other) == Key(set) }):
				want, found = append(want, set), true
			default:
				touched++
			}
		}
		if !found {
			want = append(want, set)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v with %v: %v, want %v", list, set, got, want)
		}
	}
	if touched == 0 {
		t.Error("no name was there twice")
	}
}

// An index compares with maps, in all its versions.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key := func() types.NamespacedName {
		return types.NamespacedName{Namespace: []string{"", "a"}[r.IntN(2)], Name: fmt.Sprint(r.IntN(6))}
	}
	read := make(map[types.NamespacedName]int32)
	want := make(map[types.NamespacedName]int)
	for i := range 5 {
		k := key()
		read[k], want[k] = int32(i), i
	}
	type version struct {
		index *Index
		want  map[types.NamespacedName]int
	}
	versions := []version{{NewIndex(read), want}}
	gone := 0
	for step := range 3000 {
		from := versions[r.IntN(len(versions))]
		next, k := version{want: maps.Clone(from.want)}, key()
		if r.IntN(3) == 0 {
			next.index = from.index.Without(k)
			delete(next.want, k)
		} else {
			next.index, next.want[k] = from.index.With(k, step), step
		}
		if versions = append(versions, next); len(versions) > 20 {
			versions = versions[1:]
		}
		for _, v := range versions {
			k := key()
			position, found := v.index.Get(k)
			if where, there := v.want[k]; found != there || found && position != where {
				t.Fatalf("step %d: %v is at %d (%t), want %d (%t)", step, k, position, found, where, there)
			}
			if !found {
				gone++
			}
		}
	}
	if gone == 0 {
		t.Error("all names were there")
	}
}
