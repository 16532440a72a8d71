// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/nodefit"
)

// Gang is a PodGroup with pods that wait for devices.
type Gang struct {
	Key types.NamespacedName
	// Workloads are the waiting pods, in the order of the scheduling queue.
	Workloads []Workload
	// Needs is how many of them must have a place for the group to start; at least one.
	Needs int

	object *schedulingapi.PodGroup
}

// GangOutcome is the result for a group.
type GangOutcome struct {
	*gang.Result
	Gang Gang
	// Placements are by workload. They have no claims before KeepGang is called.
	Placements []*Placement
	// Why says, in sentences, what pods compete for and what would help. WhyNot sets it.
	Why []string
	// Topology is the label and value of the nodes for all pods. If they do not fit, it is the
	// closest one. It is empty without a topology constraint.
	Topology string

	members  []*gangMember // by pod of the Result
	question gang.Question
	// domain has the indexes of the question's nodes among all nodes.
	domain []int
}

// String returns one sentence: how many pods fit together, and why not more if that is known.
func (o *GangOutcome) String() string {
	return strings.Join(append([]string{o.counted()}, o.Why...), "; ")
}

// counted returns how many pods fit together.
func (o *GangOutcome) counted() string {
	fit := o.Placed()
	text := fmt.Sprintf("PodGroup %s: %d of %d pods fit together%s, and it needs %d", o.Gang.Key, fit, len(o.Gang.Workloads), o.on()+o.in(), o.Gang.Needs)
	switch {
	case o.Verdict == allocator.NotDecided:
		return text + "; not decided: more may fit, raise --budget to search on"
	case o.Verdict == allocator.NotSatisfiable && !o.Exact:
		return text + "; no way was found for more, which is no proof"
	case o.Verdict == allocator.Satisfiable && o.OneByOne:
		return text + "; they also fit one after the other"
	case o.Verdict == allocator.Satisfiable:
		return text + "; one after the other they do not"
	}
	return text
}

// MayFit reports whether a group that does not start may fit all the same.
func (o *GangOutcome) MayFit() bool {
	return o.Verdict == allocator.NotDecided || o.Verdict == allocator.NotSatisfiable && !o.Exact
}

// in returns a phrase with the attribute values that the devices of the pods share.
func (o *GangOutcome) in() string {
	if len(o.Domain) == 0 {
		return ""
	}
	names := make([]string, len(o.Domain))
	for i, domain := range o.Domain {
		names[i] = domain.String()
	}
	return " with devices of " + strings.Join(names, " and ")
}

// on returns a phrase with the topology label.
func (o *GangOutcome) on() string {
	if o.Topology == "" {
		return ""
	}
	return " on nodes with " + o.Topology
}

// groupOf returns the PodGroup of a workload if the group has a minimum number of pods or a
// topology constraint, or nil.
func (c *Cluster) groupOf(w Workload) *schedulingapi.PodGroup {
	if w.Pod == nil || w.Pod.Spec.SchedulingGroup == nil || w.Pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	for _, group := range c.objects.PodGroups {
		if group.Namespace == w.Pod.Namespace && group.Name == *w.Pod.Spec.SchedulingGroup.PodGroupName && (group.Spec.SchedulingPolicy.Gang != nil || topologyKey(group) != "") {
			return group
		}
	}
	return nil
}

// Gangs lists the groups with pods that wait for devices, in the order of their first pods.
func (c *Cluster) Gangs() []Gang {
	var list []Gang
	for _, w := range c.Workloads() {
		group := c.groupOf(w)
		if group == nil {
			continue
		}
		at := slices.IndexFunc(list, func(g Gang) bool { return g.Key == keyOf(group) })
		if at < 0 {
			at = len(list)
			list = append(list, Gang{Key: keyOf(group), object: group})
			if policy := group.Spec.SchedulingPolicy.Gang; policy != nil {
				list[at].Needs = int(policy.MinCount) - c.started(group)
			}
		}
		list[at].Workloads = append(list[at].Workloads, w)
	}
	for i := range list {
		list[i].Needs = max(1, list[i].Needs)
	}
	return list
}

// started counts the pods of a group that run, or wait and need no devices.
func (c *Cluster) started(group *schedulingapi.PodGroup) int {
	n := 0
	for _, pod := range c.pods {
		if c.groupOf(Workload{Pod: pod}) == group && (nodefit.Occupies(pod) || Pending(pod) && !usesDevices(pod)) {
			n++
		}
	}
	return n
}

// PlaceGang places the pods of a group: all, or as many as possible if the group needs no more. It
// keeps nothing: see Keep. oneByOne places the pods one after the other, as kube-scheduler does.
// With a topology constraint, all nodes have the same value of its label. The error is the
// context's.
func (c *Cluster) PlaceGang(ctx context.Context, g Gang, nodes []*corev1.Node, oneByOne bool) (*GangOutcome, error) {
	o := &GangOutcome{Gang: g, Result: &gang.Result{}}
	q := gang.Question{Compile: c.compile, State: c.Ledger.State(), Nodes: nodes, Min: g.Needs, Budget: 2 * c.options.Budget}
	q.OneByOne = oneByOne || g.object.Spec.SchedulingPolicy.Gang == nil
	for i, w := range g.Workloads {
		placement, attempt := c.attempt(w, nil)
		o.Placements = append(o.Placements, placement)
		if attempt == nil {
			continue
		}
		m := &gangMember{attempt: attempt, at: i}
		pod, err := m.pod(nodes)
		if err != nil {
			placement.Err = err
			continue
		}
		q.OneByOne = q.OneByOne || m.across()
		q.Pods, o.members = append(q.Pods, pod), append(o.members, m)
	}
	q.Room = func(node int, pods []int) bool { return c.hasRoom(nodes[node], o.members, pods) }
	var err error
	if q.Group, q.Held, err = c.common(g, o.Placements); err != nil {
		o.refuse(err)
		return o, nil
	}
	domains, err := c.gangDomains(g, nodes)
	if err != nil {
		o.refuse(err)
		return o, nil
	}
	o.question = q
	switch {
	case len(domains) == 0:
		o.Why = []string{"no node has the label " + topologyKey(g.object)}
		fallthrough
	case len(o.members) < g.Needs:
		o.Verdict, o.Exact = allocator.NotSatisfiable, true
	default:
		if err := o.ask(ctx, q, domains); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			o.refuse(err)
		}
	}
	for i, m := range o.members {
		if p := o.Placements[m.at]; o.Verdict == allocator.Satisfiable && o.Places[i].Node >= 0 {
			p.Node = o.question.Nodes[o.Places[i].Node].Name
		} else {
			p.Reason, p.gang = o.String(), o
		}
	}
	return o, nil
}

// WhyNot finds out what the pods of a group that does not start compete for, and what would help.
// Nothing may be kept since PlaceGang. The error is the context's.
func (c *Cluster) WhyNot(ctx context.Context, o *GangOutcome) error {
	found, err := gang.Explain(ctx, o.question, o.Result, true)
	if err != nil || found == nil {
		return err
	}
	o.Why = found.Sentences(
		func(pod int) string { return o.Gang.Workloads[o.members[pod].at].Key().String() },
		func(node int) string { return o.question.Nodes[node].Name },
	)
	for _, m := range o.members {
		if p := o.Placements[m.at]; !p.Placed() && p.Err == nil {
			p.Reason = o.String()
		}
	}
	return nil
}

// refuse sets an error for all pods of the question.
func (o *GangOutcome) refuse(err error) {
	for _, m := range o.members {
		o.Placements[m.at].Err = fmt.Errorf("PodGroup %s: %w", o.Gang.Key, err)
	}
}

// common reads the requirements for devices of all pods of a group. It also returns the claims of
// its pods that are already allocated.
func (c *Cluster) common(g Gang, waiting []*Placement) (group extension.Group, held []*resourceapi.ResourceClaim, err error) {
	if group, err = extension.GroupOf(g.object.Annotations); err != nil || group.IsZero() {
		return group, nil, err
	}
	all, err := c.heldBy(g.object, nil)
	if err != nil {
		return group, nil, err
	}
	for _, placement := range waiting {
		all = append(all, placement.Before...)
	}
	for _, claim := range all {
		if claim.Status.Allocation != nil {
			held = append(held, claim)
		}
	}
	return group, held, group.Check(all)
}

// gangMember is a pod of a group in a question.
type gangMember struct {
	*attempt
	at int // index among the workloads
	// on has the variant for each node, nil where the pod cannot run.
	on       []*variant
	variants []*variant
}

// pod returns the member as a pod of the question.
func (m *gangMember) pod(nodes []*corev1.Node) (gang.Pod, error) {
	on := make([]int, len(nodes))
	m.on = make([]*variant, len(nodes))
	var lists [][]*resourceapi.ResourceClaim
	key := m.question()
	for n, node := range nodes {
		why, v, err := m.prepare(node)
		if err != nil {
			return gang.Pod{}, err
		}
		if on[n] = -1; !why.empty() {
			continue
		}
		if on[n] = slices.Index(m.variants, v); on[n] < 0 {
			on[n] = len(m.variants)
			m.variants = append(m.variants, v)
			lists = append(lists, open(v.claims))
		}
		m.on[n] = v
	}
	if len(lists) == 0 {
		lists = [][]*resourceapi.ResourceClaim{nil}
	}
	return gang.Pod{Kind: key, Variants: lists, Variant: func(node int) int { return on[node] }}, nil
}

func open(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c *resourceapi.ResourceClaim) bool { return c.Status.Allocation != nil })
}

// across reports whether the pod has constraints across claims. Claims of other pods must not be
// included in them.
func (m *gangMember) across() bool {
	for _, claim := range m.claims {
		extended, err := extension.Of(claim)
		if err == nil && (len(extended.MatchAcross) > 0 || slices.ContainsFunc(extended.Preferred, func(p extension.Preference) bool { return p.Across })) {
			return true
		}
	}
	return false
}

// hasRoom reports whether a node has the resources that members need together, apart from devices.
func (c *Cluster) hasRoom(node *corev1.Node, members []*gangMember, pods []int) bool {
	if len(pods) == 0 {
		return true
	}
	sums := make(map[corev1.ResourceName]resource.Quantity)
	var fromDevices []corev1.ResourceName
	for _, pod := range pods {
		fromDevices, _ = c.fromDevices(members[pod].extended, node)
		for _, n := range members[pod].needs {
			if !slices.Contains(fromDevices, n.name) {
				sum := sums[n.name]
				sum.Add(n.quantity)
				sums[n.name] = sum
			}
		}
	}
	needs := make([]need, 0, len(sums))
	for name, quantity := range sums {
		needs = append(needs, need{name, quantity})
	}
	short := c.shortOf(needs, node, nil)
	return short.empty()
}

// KeepGang adds the placements to the cluster, with their claims.
func (c *Cluster) KeepGang(o *GangOutcome) error {
	for i, m := range o.members {
		p := o.Placements[m.at]
		if !p.Placed() {
			continue
		}
		m.accept(p, m.on[o.domain[o.Places[i].Node]], o.Places)
		if err := c.Keep(p); err != nil {
			return err
		}
	}
	return nil
}

// accept records the result of a member. A shared claim may already be kept for another member.
func (m *gangMember) accept(p *Placement, v *variant, places []gang.Place) {
	p.Before, p.Fits = slices.Clone(v.claims), []string{p.Node}
	p.Claims = make([]*resourceapi.ResourceClaim, len(p.Before))
	for i, claim := range p.Before {
		if kept := m.cluster.Claim(keyOf(claim)); kept != nil {
			claim = kept
		}
		p.Before[i] = claim
		claim = claim.DeepCopy()
		for _, place := range places {
			for _, made := range place.Claims {
				if keyOf(made) == keyOf(claim) && claim.Status.Allocation == nil {
					claim.Status.Allocation = made.Status.Allocation.DeepCopy()
				}
			}
		}
		if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		}
		m.cluster.reserve(claim, m.workload)
		p.Claims[i] = claim
	}
}

// GangRun places the groups of a run, each at the turn of its first pod.
type GangRun struct {
	cluster *Cluster
	gangs   []Gang
	placed  map[types.NamespacedName]*Placement // by pod
	explain bool
}

// GangRun starts a run. With explain, it finds out why groups do not start.
func (c *Cluster) GangRun(explain bool) *GangRun {
	return &GangRun{cluster: c, gangs: c.Gangs(), explain: explain, placed: make(map[types.NamespacedName]*Placement)}
}

// Turn returns and keeps the placement of a pod of a group. It returns nil for other workloads.
func (r *GangRun) Turn(ctx context.Context, w Workload, nodes []*corev1.Node) (*Placement, error) {
	if w.Pod == nil {
		return nil, nil
	}
	if known := r.placed[w.Key()]; known != nil {
		return known, nil
	}
	at := slices.IndexFunc(r.gangs, func(g Gang) bool { return slices.Contains(g.Workloads, w) })
	if at < 0 {
		return nil, nil
	}
	o, err := r.cluster.PlaceGang(ctx, r.gangs[at], nodes, false)
	if err != nil {
		return nil, err
	}
	if r.explain {
		if err := r.cluster.WhyNot(ctx, o); err != nil {
			return nil, err
		}
	}
	for i, other := range o.Gang.Workloads {
		r.placed[other.Key()] = o.Placements[i]
	}
	return r.placed[w.Key()], r.cluster.KeepGang(o)
}

// SupposeGang keeps the placements even if they are fewer than the group needs. What the other pods
// then lack is what prevents the start.
func (c *Cluster) SupposeGang(o *GangOutcome) error {
	for i, m := range o.members {
		if p := o.Placements[m.at]; i < len(o.Places) && o.Places[i].Node >= 0 {
			p.Node, p.Reason = o.question.Nodes[o.Places[i].Node].Name, ""
		}
	}
	return c.KeepGang(o)
}
