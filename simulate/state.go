// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// State is a cluster at one point of a simulation. It is immutable and safe for concurrent use.
type State struct {
	world *world
	data  version
	// current caches the State with a wider read set, see seen.
	current atomic.Pointer[State]
	// firsts caches the first real node with room, by kind of pods.
	firsts memo.Map[*podKind, int]
}

// Faults lists the objects of the input that were ignored, with the reason.
func (s *State) Faults() []Fault { return s.world.faults }

// Shapes groups pods by what they ask for. Shapes with the most devices come first, equal ones in the order
// given. It takes time in proportion to the pods, and compiles expressions once per shape. The error joins one for
// each pod that is in no shape: it names the pod, and what is wrong with it or with an object that it refers to. The
// shapes have all other pods then.
func (s *State) Shapes(pods []*corev1.Pod) ([]*Shape, error) {
	byKind := make(map[string]*Shape)
	var shapes []*Shape
	var errs []error
	for _, pod := range pods {
		kind, err := s.world.kindOf(pod)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		shape := byKind[kind.key]
		if shape == nil {
			shape = &Shape{kind: kind, claims: s.world.resolver}
			byKind[kind.key] = shape
			shapes = append(shapes, shape)
		}
		shape.Pods = append(shape.Pods, pod)
	}
	slices.SortStableFunc(shapes, func(a, b *Shape) int { return cmp.Compare(b.kind.size(), a.kind.size()) })
	return shapes, errors.Join(errs...)
}

// Template reads a template. It takes time in proportion to its devices. The error says what is wrong with the
// spec.
func (s *State) Template(spec TemplateSpec) (*Template, error) {
	w := s.world
	if spec.Node == nil {
		return nil, fmt.Errorf("the template has no node")
	}
	if slices.Contains(spec.Slices, nil) || slices.Contains(spec.Daemon, nil) {
		return nil, fmt.Errorf("template %s: a slice or a pod is nil", spec.Node.Name)
	}
	for _, slice := range spec.Slices {
		if slice.Spec.NodeName == nil {
			return nil, fmt.Errorf("template %s: slice %s has no spec.nodeName: only devices of the node belong to a template", spec.Node.Name, slice.Name)
		}
	}
	if math.IsNaN(spec.Price) {
		return nil, fmt.Errorf("template %s: the price is not a number", spec.Node.Name)
	}
	spec.Slices = slices.Clone(spec.Slices)
	t := &Template{spec: spec, of: w.resources, gates: w.gates}
	var err error
	if t.published, err = spec.withUnknown(); err != nil {
		return nil, fmt.Errorf("template %s: %w", spec.Node.Name, err)
	}
	node, published := t.object(0), t.slices(t.published, 0)
	t.facts = &nodeFacts{
		Inventory: onenode.NewInventory(w.gates, node, published), template: t, index: -1, allocatable: w.resources.Of(spec.Node.Status.Allocatable),
	}
	for _, pod := range spec.Daemon {
		t.used = amounts.Add(t.used, w.demandsOf(pod, t.facts), 1)
		if err := s.equip(t, pod); err != nil {
			return nil, fmt.Errorf("template %s: %w", spec.Node.Name, err)
		}
	}
	return t, nil
}

// equip allocates the claims of a daemon on each node of a template, as far as they are made for the pod. A daemon that
// gets no devices takes none.
func (s *State) equip(t *Template, daemon *corev1.Pod) error {
	own := *daemon
	own.Spec.ResourceClaims = slices.DeleteFunc(slices.Clone(own.Spec.ResourceClaims), func(c corev1.PodResourceClaim) bool { return c.ResourceClaimTemplateName == nil })
	if len(own.Spec.ResourceClaims) == 0 && len(podclaims.ExtendedResources(daemon)) == 0 {
		return nil
	}
	w := s.world
	kind, err := w.kindWith(&own, true)
	if err != nil {
		return err
	}
	c, err := w.NewCall(context.Background())
	if err != nil {
		return err
	}
	facts := t.under(w.rules)
	on := nodeRecord{nodeDevices: nodeDevices{facts: facts, state: facts.State(w.ReadSet(), t.held)}}
	answer, err := s.data.needsOf(w, kind).served(&c, &s.data, Node{template: t}, &on, w.variantAnyway(kind, facts))
	switch {
	case err != nil:
		return err
	case answer.Fit == onenode.Fits:
		t.held = answer.Next().Uses
	case answer.Fit == onenode.Undecided:
		return fmt.Errorf("pod %s/%s: it is not decided which devices it gets", daemon.Namespace, daemon.Name)
	}
	return nil
}

// TemplateOf returns a template of a real node: its devices, its labels, and those of its pods for which daemon
// returns true. The node is as it was when it was new: not cordoned, and without taints that say in what state it is,
// such as not-ready, or that an autoscaler will remove it. Its devices have the taints that their drivers publish, and no
// simulated ones. It is an error if there is no such node.
func (s *State) TemplateOf(node string, daemon func(*corev1.Pod) bool) (*Template, error) {
	index, found := s.data.realNamed(s.world, node)
	if !found {
		return nil, fmt.Errorf("node %s does not exist", node)
	}
	rec := s.data.real.At(index)
	spec := TemplateSpec{Node: asNew(rec.facts.Node), Slices: s.world.rules.removed(rec.facts.Published)}
	for entry := rec.pods; entry != nil && daemon != nil; entry = entry.before {
		if entry.pod != nil && nodefit.Occupies(entry.pod) && daemon(entry.pod) {
			spec.Daemon = append(spec.Daemon, entry.pod)
		}
	}
	return s.Template(spec)
}

// Any returns a template of nodes that can be of any of the given templates: the type of node and its zone,
// say, are not decided yet. A pod fits such a node if one template has room for it and for all pods placed
// there before. Templates without room are removed from then on. So the remaining ones are those that would
// pass if each was tried alone. Sim.Options lists them, and Sim.Decide chooses one.
//
// A template is removed, too, if the search for it failed or ran out of budget. Later pods that do not fit are
// then undecided. So are pods for which the templates would take different devices of pools of several nodes.
//
// The result is used like any template, except by Expect. The name replaces that of the node of a TemplateSpec.
// Any takes time in proportion to the devices of the templates. Placing a pod for the first time takes time in
// proportion to the equivalence classes of templates; after that it is a look-up. It is an error if there is no
// template, or if one is given twice or comes from Any itself.
func (s *State) Any(name string, templates ...*Template) (*Template, error) {
	if len(templates) == 0 {
		return nil, fmt.Errorf("any %s: there is no template", name)
	}
	for i, t := range templates {
		switch {
		case t == nil:
			return nil, fmt.Errorf("any %s: template %d is nil", name, i)
		case t.of != s.world.resources:
			return nil, fmt.Errorf("any %s: %w", name, t.errOtherOpen())
		case t.choice != nil:
			return nil, fmt.Errorf("any %s: template %s is undecided itself", name, t.spec.Node.Name)
		case slices.Contains(templates[:i], t):
			return nil, fmt.Errorf("any %s: template %s is there twice", name, t.spec.Node.Name)
		}
	}
	c := &choice{members: slices.Clone(templates)}
	slices.SortStableFunc(c.members, func(a, b *Template) int { return cmp.Compare(a.spec.Price, b.spec.Price) })
	c.start(s.world.ReadSet(), s.world.rules)
	node := &corev1.Node{}
	node.Name, node.Labels = name, commonLabels(c.members)
	t := &Template{of: s.world.resources, gates: s.world.gates, spec: TemplateSpec{Node: node, Price: c.members[0].spec.Price}, choice: c}
	t.facts = &nodeFacts{Inventory: onenode.NewInventory(s.world.gates, node, nil), template: t, index: -1}
	return t, nil
}

// commonLabels returns the labels with the same value in all templates.
func commonLabels(templates []*Template) map[string]string {
	common := make(map[string]string)
	for label, value := range templates[0].spec.Node.Labels {
		if !slices.ContainsFunc(templates, func(t *Template) bool {
			other, found := t.spec.Node.Labels[label]
			return !found || other != value
		}) {
			common[label] = value
		}
	}
	return common
}

// Node returns the handle of a real node. It is an error if there is no node of that name.
func (s *State) Node(name string) (Node, error) {
	index, found := s.data.realNamed(s.world, name)
	if !found {
		return Node{}, fmt.Errorf("node %s does not exist", name)
	}
	return Node{index: index, name: name}, nil
}

// Object returns the object of a real node, which must not be modified. It is nil for any other node, and for a
// removed one.
func (s *State) Object(n Node) *corev1.Node {
	if n = s.data.translate(s.world, n); n.template != nil {
		return nil
	}
	if rec, found := s.data.record(n); found {
		return rec.facts.Node
	}
	return nil
}

// Pods lists the pods on a real node, the last placed first.
func (s *State) Pods(n Node) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		rec, _ := s.data.record(s.data.translate(s.world, n))
		for entry := rec.pods; entry != nil; entry = entry.before {
			if !yield(entry.pod) {
				return
			}
		}
	}
}

// InUse returns the fraction of the node's devices that are in use, from 0 to 1. A device with shares in use
// counts as one. Devices of pools of several nodes do not count. It is 0 for a node without devices, and for
// one that was removed. An undecided node counts as its cheapest remaining template.
func (s *State) InUse(n Node) float64 {
	rec, found := s.data.record(s.data.translate(s.world, n))
	if !found {
		return 0
	}
	return rec.inUse()
}

// DeviceUse describes a device, given which others are in use.
type DeviceUse struct {
	// Whole is set if the device is not a partition of another one (KEP-4815). No device of its pool consumes
	// at least as much of all counters, and more of some.
	Whole bool
	// Free is set if the device could be allocated exclusively, given what is in use. Taints do not count.
	Free bool
}

// Devices lists the devices that belong to this node alone. There are none for a node that was removed, or is
// undecided.
func (s *State) Devices(n Node) iter.Seq2[pools.DeviceID, DeviceUse] {
	return func(yield func(pools.DeviceID, DeviceUse) bool) {
		n = s.data.translate(s.world, n)
		rec, found := s.data.record(n)
		if !found || rec.options != nil {
			return
		}
		facts := s.world.withRealNames(n, rec.facts)
		for position, use := range facts.DeviceUses(rec.state.Uses) {
			if !yield(facts.DeviceID(position), DeviceUse(use)) {
				return
			}
		}
	}
}

// Utilization returns the fraction of each pool of a node that is in use, for decisions such as
// cluster-autoscaler's scale-down: the mean over its devices. Devices that draw on counters (KEP-4815) are parts
// of something larger. Each counter set counts once instead of them, by its most consumed counter. A device with
// shares in use (KEP-5075) counts by its most consumed capacity. Fractions are from 0 to 1, or more if the pool is
// overcommitted. Pools of several nodes are not listed, nor anything of a removed node. An undecided node counts
// as its cheapest remaining template.
func (s *State) Utilization(n Node) iter.Seq2[pools.PoolID, float64] {
	rec, found := s.data.record(s.data.translate(s.world, n))
	if !found {
		return func(func(pools.PoolID, float64) bool) {}
	}
	if o := rec.options; o != nil {
		rec, _ = rec.as(o.cheapest())
	}
	return rec.facts.Utilization(rec.state.Uses)
}
