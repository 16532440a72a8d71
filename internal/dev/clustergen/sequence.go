// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// Sequence draws the turns of a sequence of questions about one cluster: what one
// allocates is in use in the next, claims are released, and slices change in between.
// It is not safe for concurrent use.
type Sequence struct {
	*small
	name  string
	turns int
	// away are slices that have been taken away and may come back.
	away []*resourceapi.ResourceSlice
}

// NewSequence starts a sequence. The same seed gives the same turns after the same
// answers.
func NewSequence(seed uint64, profile Profile) *Sequence {
	g := newGenerator(seed ^ 0x73657175)
	on := g.pairFeatures()
	if profile == Shares || profile == Default && g.chance(0.3) {
		on = g.sharesFeatures()
	}
	on[FailingSelectors] = on[FailingSelectors] && g.chance(0.3)
	g.c = &alloctest.Case{Features: allFeatures}
	return &Sequence{small: g.newSmall(on), name: fmt.Sprintf("sequence-%s-%d", profile, seed)}
}

// First returns the first turn.
func (s *Sequence) First() alloctest.Turn {
	s.buildCluster()
	s.multiplyNodes()
	return s.turn(s.c)
}

// multiplyNodes gives the other nodes the pools that are local to one, so that nodes are
// alike.
func (s *Sequence) multiplyNodes() {
	if s.chance(0.2) {
		return
	}
	local := make(map[string]bool)
	for _, slice := range s.c.Slices {
		local[slice.Spec.Pool.Name] = local[slice.Spec.Pool.Name] || slice.Spec.NodeName != nil
	}
	for _, slice := range slices.Clone(s.c.Slices) {
		for _, node := range s.c.Nodes {
			if !local[slice.Spec.Pool.Name] || node.Name == s.c.Node {
				continue
			}
			again := slice.DeepCopy()
			again.Name += "-" + node.Name
			again.Spec.Pool.Name += "-" + node.Name
			if again.Spec.NodeName != nil {
				again.Spec.NodeName = ptr.To(node.Name)
			}
			s.c.Slices = append(s.c.Slices, again)
		}
	}
}

// Next returns the turn that follows the case of the last one, with all that it
// allocated in use.
func (s *Sequence) Next(last *alloctest.Case) alloctest.Turn {
	c := &alloctest.Case{Features: last.Features}
	t := alloctest.Turn{Case: c}
	s.placed = placedIn(last.Slices)
	if s.chance(0.4) {
		for range 1 + s.intn(2) {
			s.change(&t, last)
		}
	}
	for _, claim := range last.Allocated {
		if s.chance(s.releases(len(last.Allocated))) {
			t.Released = append(t.Released, claim.Name)
		}
	}
	s.c = c
	next := s.turn(last)
	next.Gone, next.Released = t.Gone, t.Released
	return next
}

// releases is how likely a claim is released: the more there are.
func (s *Sequence) releases(held int) float64 { return min(0.5, 0.08*float64(held)) }

func placedIn(all []*resourceapi.ResourceSlice) []placedDevice {
	var placed []placedDevice
	for _, slice := range all {
		for i := range slice.Spec.Devices {
			placed = append(placed, placedDevice{slice, &slice.Spec.Devices[i]})
		}
	}
	return placed
}

// turn asks a question about a cluster.
func (s *Sequence) turn(cluster *alloctest.Case) alloctest.Turn {
	c := *s.c
	c.Name = fmt.Sprintf("%s-%d", s.name, s.turns)
	c.Node = pick(s.generator, nodeNames(cluster.Nodes)...)
	s.turns++
	s.c = &c
	s.c.Claims = nil
	s.claimsWanted = 1 + s.intn(2)
	s.addClaims()
	return alloctest.Turn{Case: s.c, DryRun: s.chance(0.3)}
}

func nodeNames(nodes []*corev1.Node) []string {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return names
}

// change draws one change of the slices.
func (s *Sequence) change(t *alloctest.Turn, last *alloctest.Case) {
	if len(s.away) > 0 && s.chance(0.4) {
		t.Case.Slices = append(t.Case.Slices, s.away...)
		s.away = nil
		return
	}
	all := current(t, last)
	if len(all) == 0 {
		return
	}
	slice := pick(s.generator, all...)
	switch n := s.intn(10); {
	case n == 0:
		t.Gone = append(t.Gone, slice.Name)
		t.Case.Slices = slices.DeleteFunc(t.Case.Slices, func(o *resourceapi.ResourceSlice) bool { return o.Name == slice.Name })
		s.away = append(s.away, slice)
	case n < 3:
		s.bump(t, all, slice)
	default:
		changed := slice.DeepCopy()
		s.edit(&changed.Spec)
		set(t, changed)
	}
}

// current are the slices as a turn has them so far.
func current(t *alloctest.Turn, last *alloctest.Case) []*resourceapi.ResourceSlice {
	return t.After(last).Slices
}

// set replaces a slice in a turn.
func set(t *alloctest.Turn, slice *resourceapi.ResourceSlice) {
	i := slices.IndexFunc(t.Case.Slices, func(o *resourceapi.ResourceSlice) bool { return o.Name == slice.Name })
	if i < 0 {
		t.Case.Slices = append(t.Case.Slices, slice)
		return
	}
	t.Case.Slices[i] = slice
}

// bump publishes a pool again under the next generation: all of it, or all but one slice.
func (s *Sequence) bump(t *alloctest.Turn, all []*resourceapi.ResourceSlice, of *resourceapi.ResourceSlice) {
	forgotten := s.chance(0.2)
	for _, slice := range all {
		if slice.Spec.Driver != of.Spec.Driver || slice.Spec.Pool.Name != of.Spec.Pool.Name {
			continue
		}
		if forgotten && slice != of {
			forgotten = false
			continue
		}
		newer := slice.DeepCopy()
		newer.Spec.Pool.Generation++
		if s.chance(0.5) {
			s.edit(&newer.Spec)
		}
		set(t, newer)
	}
}

// edit changes one thing of a slice.
func (s *Sequence) edit(spec *resourceapi.ResourceSliceSpec) {
	if len(spec.Devices) == 0 {
		s.editCounters(spec)
		return
	}
	i := s.intn(len(spec.Devices))
	device := &spec.Devices[i]
	switch s.intn(6) {
	case 0:
		added := device.DeepCopy()
		added.Name = fmt.Sprintf("n%d", s.turns*10+s.intn(10))
		if !slices.ContainsFunc(spec.Devices, func(d resourceapi.Device) bool { return d.Name == added.Name }) {
			spec.Devices = slices.Insert(spec.Devices, i, *added)
		}
	case 1:
		spec.Devices = slices.Delete(spec.Devices, i, i+1)
	case 2:
		device.Taints = nil
		if s.chance(0.6) {
			device.Taints = s.taints()
		}
	case 3:
		if len(device.Capacity) == 0 {
			device.AllowMultipleAllocations = pick(s.generator, nil, ptr.To(true))
		}
	default:
		device.Attributes = s.smallValues()
	}
}

// editCounters may leave less than is in use.
func (s *Sequence) editCounters(spec *resourceapi.ResourceSliceSpec) {
	for _, set := range spec.SharedCounters {
		set.Counters["memory"] = resourceapi.Counter{Value: quantity(pick(s.generator, "4", "8", "10", "16"))}
	}
}
