// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate/internal/lists"
)

// A State after changes is as if it had been read from the lists of objects that there are then, and the one before stays as
// it was. So it is whatever changes, pods and claims that are faulty included.
func TestWithIsLikeOpen(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(80) {
		g := newChanging(seed)
		options := Options{Features: allocator.AllFeatures(), Extensions: true}
		state, err := Open(g.c, options)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 12 {
			when := fmt.Sprintf("seed %d, step %d", seed, step)
			if g.IntN(3) == 0 { // what is known is known of the world before
				questionsOf(t, when, state, g.pending())
			}
			before := g.c
			changes := g.change(seen)
			next, err := state.With(changes)
			want, wantErr := Open(g.c, options)
			if err != nil || wantErr != nil {
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Fatalf("%s: error %v, want %v", when, err, wantErr)
				}
				break
			}
			if next.world.family == state.world.family {
				seen["followed"]++
			} else if seen["read again"]++; changes.small() {
				seen["read again for pods and claims"]++
			}
			sameAsRead(t, when, next, want)
			if got, want := questionsOf(t, when, next, g.pending()), questionsOf(t, when, want, g.pending()); got != want {
				t.Fatalf("%s: the answers are\n%s\nwant\n%s", when, got, want)
			}
			if g.IntN(4) == 0 {
				old, err := Open(before, options)
				if err != nil {
					t.Fatal(err)
				}
				sameAsRead(t, when+", the State before", state, old)
			}
			if g.IntN(5) == 0 { // another future of the same State
				saved := *g
				g.c = before
				other, err := state.With(g.change(seen))
				if wantOther, wantErr := Open(g.c, options); err == nil && wantErr == nil {
					sameAsRead(t, when+", another future", other, wantOther)
				}
				g.c = saved.c
				sameAsRead(t, when+", after another future", next, want)
			}
			state = next
		}
	}
	t.Log(seen)
	for _, what := range []string{"followed", "read again", "pod set", "pod gone", "pod again", "claim set", "claim gone", "claim again", "unlisted", "fault", "nodes", "slices", "templates", "classes", "groups", "rules"} {
		if seen[what] < 20 {
			t.Errorf("%s was seen %d times", what, seen[what])
		}
	}
	if all := seen["read again for pods and claims"]; all > seen["followed"]/3 {
		t.Errorf("%d changes of pods and claims were read again, and %d followed", all, seen["followed"])
	}
}

// sameAsRead compares what two States have read, piece by piece.
func sameAsRead(t *testing.T, when string, got, want *State) {
	t.Helper()
	if a, b := faultsOf(got), faultsOf(want); !slices.Equal(a, b) {
		t.Fatalf("%s: the faults are\n%q\nwant\n%q", when, a, b)
	}
	if diff := cmp.Diff(want.world.unsettled, got.world.unsettled); diff != "" {
		t.Fatalf("%s: pods of which claims are missing (-want +got):\n%s", when, diff)
	}
	for i := range 9 {
		key := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("p", i)}
		a, foundA := got.world.podsOfWorld().Get(key)
		if b, foundB := want.world.podsOfWorld().Get(key); foundA != foundB || foundA && a != b {
			t.Fatalf("%s: pod %s is on node %d, %t; want %d, %t", when, key, a, foundA, b, foundB)
		}
	}
	got, want = got.withReadSet(), want.withReadSet()
	if got.data.real.Len() != want.data.real.Len() {
		t.Fatalf("%s: %d nodes, want %d", when, got.data.real.Len(), want.data.real.Len())
	}
	for i := range want.data.real.Len() {
		if a, b := nodeText(got, i), nodeText(want, i); a != b {
			t.Fatalf("%s: node\n%s\nwant\n%s", when, a, b)
		}
	}
	for i, uses := range want.data.surroundings.Uses {
		if !got.data.surroundings.Uses[i].Equal(uses) {
			t.Fatalf("%s: of pool %d, %v is in use, want %v", when, i, got.data.surroundings.Uses[i], uses)
		}
	}
	if diff := cmp.Diff(claimTexts(want), claimTexts(got)); diff != "" {
		t.Fatalf("%s: claims (-want +got):\n%s", when, diff)
	}
}

func faultsOf(s *State) (list []string) {
	for _, fault := range s.Faults() {
		list = append(list, fault.Error())
	}
	slices.Sort(list)
	return list
}

func nodeText(s *State, i int) string {
	rec := s.data.real.At(i)
	used := make(map[corev1.ResourceName]int64)
	for number, n := range rec.used {
		if n != 0 {
			used[s.world.resources.Name(number)] = n
		}
	}
	text := fmt.Sprintf("%p %s gone %t used %v devices %x\n", rec.facts.Node, rec.facts.Node.Name, rec.gone, used, rec.state.Uses.AppendKey(nil))
	for entry := rec.pods; entry != nil; entry = entry.before {
		var claims []string
		for _, id := range entry.claims {
			claims = append(claims, lists.Key(s.world.claimNumbered(id).object).String())
		}
		text += fmt.Sprintf("  %p %s joins %t claims %v\n", entry.pod, entry.pod.Name, entry.joins, claims)
	}
	return text
}

// claimTexts say what is known of each claim.
func claimTexts(s *State) (texts []string) {
	for id := range s.world.claims.Len() {
		claim := s.world.realClaim(int32(id))
		if claim == nil {
			continue
		}
		rec := s.data.claimRecord(id)
		times := make(map[resourceapi.ResourceClaimConsumerReference]int)
		for consumer := range rec.consumers.All() {
			times[consumer] = rec.consumers.Times(consumer)
		}
		var held, unlisted []string
		for _, h := range rec.held {
			held = append(held, fmt.Sprint(h.node.name, h.holdings))
		}
		slices.Sort(held)
		for _, u := range rec.unlisted {
			unlisted = append(unlisted, fmt.Sprint(u.device, u.Holding, slices.Contains(s.world.unlisted[u.device.PoolID()], int32(id))))
		}
		text := fmt.Sprintf("%s %p %s allocated %t by %v reserved %v copies %d held %v shared %v unlisted %v unusable %v selector %t", lists.Key(claim.object), claim.object, fmt.Sprint(*claim.spec.Devices.Requests[0].Exactly),
			rec.allocated, times, rec.reserved, rec.copies, held, rec.shared, unlisted, rec.unusable, rec.selector != nil)
		texts = append(texts, text)
	}
	for pool, ids := range s.world.unlisted {
		texts = append(texts, fmt.Sprintf("unlisted %s %d", pool, len(ids)))
	}
	slices.Sort(texts)
	return texts
}

// questionsOf asks about pods, and about nodes that go.
func questionsOf(t *testing.T, when string, s *State, pods []*corev1.Pod) string {
	t.Helper()
	text := ""
	for _, pod := range pods {
		shapes, err := s.Shapes([]*corev1.Pod{pod})
		if err != nil {
			text += fmt.Sprintf("%s: %v\n", pod.Name, err)
			continue
		}
		fit, err := s.FitsMany(t.Context(), shapes[0], Real(nil))
		if err != nil {
			t.Fatal(when, err)
		}
		sim := s.Sim()
		r, err := sim.Place(t.Context(), pod, Real(nil), FirstFit)
		if err != nil {
			t.Fatal(when, err)
		}
		text += fmt.Sprintf("%s: %d fit, %d undecided, %v; placed %d", pod.Name, fit.Pods, fit.Undecided, fit.Err, r.Placed)
		for p := range r.Placements() {
			text += " on " + p.Node.Name()
		}
		text += "\n"
	}
	departures, err := s.Drainable(t.Context(), Real(nil), Real(nil), FirstFit)
	if err != nil {
		t.Fatal(when, err)
	}
	for _, d := range departures {
		text += fmt.Sprintf("%s can go: %t, %t, %v\n", d.Node.Name(), d.Possible, d.Undecided, d.Err)
		sim := s.Sim()
		r, err := sim.Drain(t.Context(), Real(nil), FirstFit, d.Node.Name())
		text += fmt.Sprintf("  drained: %d placed, %d not, %v\n", r.Placed, r.Unfit, err)
		for i := range sim.data.real.Len() {
			text += fmt.Sprintf("  %x", sim.data.real.At(i).state.Uses.AppendKey(nil))
		}
	}
	return text
}

// naive does changes to the lists of a cluster, one after the other.
func naive(c Cluster, changes Changes) Cluster {
	for i := len(changes.Set.Pods) - 1; i >= 0; i-- { // the last one counts
		for k := range i {
			if changes.Set.Pods[k].Name == changes.Set.Pods[i].Name {
				changes.Set.Pods = slices.Delete(slices.Clone(changes.Set.Pods), k, k+1)
				return naive(c, changes)
			}
		}
	}
	for _, o := range changes.Gone.Nodes {
		c.Nodes = withoutNamed(c.Nodes, o)
	}
	for _, o := range changes.Set.Nodes {
		c.Nodes = setNamed(c.Nodes, o)
	}
	for _, o := range changes.Gone.Slices {
		c.Slices = withoutNamed(c.Slices, o)
	}
	for _, o := range changes.Set.Slices {
		c.Slices = setNamed(c.Slices, o)
	}
	for _, o := range changes.Gone.Claims {
		c.Claims = withoutNamed(c.Claims, o)
	}
	for _, o := range changes.Set.Claims {
		c.Claims = setNamed(c.Claims, o)
	}
	for _, o := range changes.Gone.Templates {
		c.Templates = withoutNamed(c.Templates, o)
	}
	for _, o := range changes.Set.Templates {
		c.Templates = setNamed(c.Templates, o)
	}
	for _, o := range changes.Set.Classes {
		c.Classes = setNamed(c.Classes, o)
	}
	for _, o := range changes.Gone.PodGroups {
		c.PodGroups = withoutNamed(c.PodGroups, o)
	}
	for _, o := range changes.Set.PodGroups {
		c.PodGroups = setNamed(c.PodGroups, o)
	}
	for _, o := range changes.Gone.TaintRules {
		c.TaintRules = withoutNamed(c.TaintRules, o)
	}
	for _, o := range changes.Set.TaintRules {
		c.TaintRules = setNamed(c.TaintRules, o)
	}
	for _, o := range changes.Gone.Pods {
		c.Pods = withoutNamed(c.Pods, o)
	}
	for _, o := range changes.Set.Pods {
		on := func(p *corev1.Pod) string {
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				return ""
			}
			return p.Spec.NodeName
		}
		if i := slices.IndexFunc(c.Pods, func(p *corev1.Pod) bool { return p.Name == o.Name }); i >= 0 && (on(c.Pods[i]) == "" || on(c.Pods[i]) != on(o)) {
			c.Pods = withoutNamed(c.Pods, o)
		}
		c.Pods = setNamed(c.Pods, o)
	}
	return c
}

func withoutNamed[T metav1.Object](list []T, gone T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return o.GetName() == gone.GetName() })
}

func setNamed[T metav1.Object](list []T, set T) []T {
	list = slices.Clone(list)
	if i := slices.IndexFunc(list, func(o T) bool { return o.GetName() == set.GetName() }); i >= 0 {
		list[i] = set
		return list
	}
	return append(list, set)
}
