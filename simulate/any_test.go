// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/simulate"
)

// An undecided node can be of those templates on which all its pods have a place if each template is tried by
// itself. The pods have the devices that they have there.
func TestAnyLikeEachByItself(t *testing.T) {
	seen := make(map[string]int)
	for seed := range sequences(t, 100) {
		g := &game{T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 45)), seen: seen}
		if g.begin(peer.Dray()) {
			g.superpose()
		}
	}
	allSeen(t, seen, "placed", "narrowed", "unfit", "claims", "room", "reverted", "decided", "on real nodes", "shared")
	t.Logf("seen: %v", seen)
}

// world is one template by itself, with a node of it.
type world struct {
	template *simulate.Template
	sim      *simulate.Sim
	placed   []simulate.Placement
	gone     bool // the node cannot be of the template
}

// superposition is an undecided node, and the same for each template.
type superposition struct {
	*game
	any    *simulate.Template
	sim    *simulate.Sim
	node   simulate.Node
	placed []simulate.Placement
	worlds []*world
	doubt  bool // a world is gone in which the pods may have had a place
}

func (g *game) superpose() {
	s := &superposition{game: g, sim: g.state.Sim()}
	var templates []*simulate.Template
	for _, node := range g.ref.nodes {
		template, err := g.state.TemplateOf(node.Name, nil)
		if err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		spec := simulate.TemplateSpec{Node: template.Node().DeepCopy(), Price: float64(g.rand.IntN(3))}
		_, spec.Slices = template.Nodes(0)
		if template, err = g.state.Template(spec); err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		templates = append(templates, template)
	}
	var err error
	if s.any, err = g.state.Any("any", templates...); err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	if err := s.sim.Add(s.any, 1); err != nil {
		s.Fatal(err)
	}
	slices.SortStableFunc(templates, func(a, b *simulate.Template) int { return cmp.Compare(a.Price(), b.Price()) })
	for _, template := range templates {
		w := &world{template: template, sim: g.state.Sim()}
		if err := w.sim.Add(template, 1); err != nil {
			s.Fatal(err)
		}
		s.worlds = append(s.worlds, w)
	}
	for range 8 {
		if !s.more() {
			return
		}
	}
	s.decide()
}

// options are the templates of which the node can be.
func (s *superposition) options() []*simulate.Template {
	var list []*simulate.Template
	for _, w := range s.worlds {
		if !w.gone {
			list = append(list, w.template)
		}
	}
	return list
}

// more places pods. It is false if the rest of the sequence has no meaning.
func (s *superposition) more() bool {
	if s.rand.IntN(5) == 0 {
		s.onReal()
		return true
	}
	pods := s.newPods(1 + s.rand.IntN(3)/2)
	shapes, err := s.state.Shapes(pods)
	if err != nil {
		s.Fatalf("seed %d: %v", s.seed, err)
	}
	if len(pods[0].Spec.ResourceClaims) == 2 && pods[0].Spec.ResourceClaims[1].ResourceClaimName != nil {
		s.seen["shared"]++
	} else if !s.crossing() {
		s.room(shapes[0])
	}
	if s.rand.IntN(3) == 0 {
		s.sim.Fork()
		if _, err := s.sim.PlaceMany(s.Context(), shapes[0], len(pods), simulate.Added(s.any), simulate.FirstFit); err != nil {
			s.Fatalf("seed %d: %v", s.seed, err)
		}
		s.sim.Revert()
		s.seen["reverted"]++
	}
	for _, pod := range pods {
		if !s.place(pod) {
			return false
		}
	}
	return true
}

// crossing reports whether the world has devices that several nodes reach.
func (s *superposition) crossing() bool {
	return slices.ContainsFunc(s.ref.slices, func(slice *resourceapi.ResourceSlice) bool { return slice.Spec.NodeName == nil })
}

func (s *superposition) place(pod *corev1.Pod) bool {
	got, err := s.sim.Place(s.Context(), pod, simulate.Added(s.any), simulate.FirstFit)
	if err != nil {
		s.Fatalf("seed %d: %s: %v", s.seed, pod.Name, err)
	}
	if got.Err != nil && strings.Contains(got.Err.Error(), "take different devices") {
		s.seen["differ"]++
		return false
	}
	var left []*world
	for _, w := range s.worlds {
		if w.gone {
			continue
		}
		alone, err := w.sim.Place(s.Context(), pod, simulate.Added(w.template), simulate.FirstFit)
		if err != nil {
			s.Fatalf("seed %d: %s: %v", s.seed, pod.Name, err)
		}
		if alone.All() {
			left = append(left, w)
			w.placed = slices.AppendSeq(w.placed, alone.Placements())
		}
		s.doubt = s.doubt || alone.Undecided > 0
	}
	if got.All() != (len(left) > 0) || len(left) == 0 && s.doubt != (got.Undecided > 0) {
		s.Fatalf("seed %d: %s: it has a place by %d templates, doubt %t; simulated: placed %d, %d do not fit, %d undecided (%v)",
			s.seed, pod.Name, len(left), s.doubt, got.Placed, got.Unfit, got.Undecided, got.Err)
	}
	if len(left) == 0 {
		s.seen["unfit"]++
		return !s.doubt // else what is left out now stays in the node's options
	}
	for _, w := range s.worlds {
		w.gone = !slices.Contains(left, w)
	}
	s.seen["placed"]++
	for placement := range got.Placements() {
		s.node, s.placed = placement.Node, append(s.placed, placement)
	}
	s.check(pod.Name)
	return true
}

// check compares what the node can be, and which devices the pods have then.
func (s *superposition) check(where string) {
	want, got := s.options(), s.sim.Options(s.node)
	if !slices.Equal(got, want) {
		s.Fatalf("seed %d: %s: the node can be %d templates, want %d", s.seed, where, len(got), len(want))
	}
	if len(want) < len(s.worlds) {
		s.seen["narrowed"]++
	}
	for _, w := range s.worlds {
		for i := range s.placed {
			placement := s.placed[i].As(w.template)
			claims, err := placement.Claims(s.Context())
			if w.gone {
				continue // a template that was left out for a later pod is no mistake
			}
			if err != nil {
				s.Fatalf("seed %d: %s: %v", s.seed, where, err)
			}
			alone, err := w.placed[i].Claims(s.Context())
			if err != nil {
				s.Fatalf("seed %d: %s: %v", s.seed, where, err)
			}
			if got, want := s.text(claims, w), s.text(alone, w); got != want {
				s.Fatalf("seed %d: %s as %s: pod %s has\n%s\nby itself\n%s", s.seed, where, w.template.Node().Name, s.placed[i].Pod.Name, got, want)
			}
			s.seen["claims"] += len(claims)
		}
	}
}

// text is what claims have allocated, under the names of the template's nodes.
func (s *superposition) text(claims []*resourceapi.ResourceClaim, w *world) string {
	var list []resourceapi.AllocationResult
	for _, claim := range claims {
		list = append(list, *claim.Status.Allocation)
	}
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		s.Fatal(err)
	}
	return strings.NewReplacer(`any-new-0"`, w.template.Node().Name+`-new-0"`, `-new-0-any"`, `-new-0"`).Replace(string(text))
}

// onReal places a pod on a real node, in all worlds.
func (s *superposition) onReal() {
	for _, pod := range s.newPods(1) {
		got, err := s.sim.Place(s.Context(), pod, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			s.Fatalf("seed %d: %v", s.seed, err)
		}
		for _, w := range s.worlds {
			if alone, err := w.sim.Place(s.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !w.gone && alone.Placed != got.Placed {
				s.Fatalf("seed %d: %s on a real node: placed %d, with a node of %s: %d, %v", s.seed, pod.Name, got.Placed, w.template.Node().Name, alone.Placed, err)
			}
		}
		s.seen["on real nodes"] += got.Placed
	}
}

// room compares how many more pods there is room for: as many as by the template with most room.
func (s *superposition) room(shape *simulate.Shape) {
	got, err := s.sim.State().FitsMany(s.Context(), shape, simulate.Added(s.any))
	if err != nil {
		s.Fatalf("seed %d: %v", s.seed, err)
	}
	most, doubt := 0, s.doubt
	for _, w := range s.worlds {
		if w.gone {
			continue
		}
		alone, err := w.sim.State().FitsMany(s.Context(), shape, simulate.Added(w.template))
		if err != nil {
			s.Fatalf("seed %d: %v", s.seed, err)
		}
		most, doubt = max(most, alone.Pods), doubt || alone.Undecided > 0
	}
	if got.Pods != most || got.Undecided > 0 && !doubt {
		s.Fatalf("seed %d: room for %d pods like %s (%d nodes undecided), want %d", s.seed, got.Pods, shape.Pods[0].Name, got.Undecided, most)
	}
	s.seen["room"] += min(most, 100)
}

// decide takes one of the options, from where on there is nothing but that.
func (s *superposition) decide() {
	left := s.options()
	if len(s.placed) == 0 {
		return
	}
	only := left[s.rand.IntN(len(left))]
	if err := s.sim.Decide(s.node, only); err != nil {
		s.Fatalf("seed %d: %v", s.seed, err)
	}
	for _, w := range s.worlds {
		w.gone = w.template != only
		if err := s.sim.Decide(s.node, w.template); w.gone && err == nil {
			s.Fatalf("seed %d: the node is of two templates", s.seed)
		}
	}
	s.seen["decided"]++
	s.doubt = false
	s.check("decided")
	for range 3 {
		if !s.more() {
			return
		}
	}
}
