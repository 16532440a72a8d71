// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate"
)

// Topologies returns what the pods of a group must have in common: labels in
// spec.schedulingConstraints, and attributes of devices in its annotation. If pods of the group run,
// only what these have is permitted. notLookedAt has what the simulation ignores of that. It returns
// an error for an invalid annotation, and for pods that run and have nothing in common.
func (c *Cluster) Topologies(g Gang) (list []simulate.Topology, notLookedAt []string, err error) {
	list, notLookedAt, err = c.topologies(g.object, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("PodGroup %s: %w", g.Key, err)
	}
	return list, notLookedAt, nil
}

// topologies is Topologies for a cluster in which some pods do not run any more.
func (c *Cluster) topologies(object *schedulingapi.PodGroup, leaving map[*corev1.Pod]bool) (list []simulate.Topology, notLookedAt []string, err error) {
	group, err := extension.GroupOf(object.Annotations)
	if err != nil {
		return nil, nil, err
	}
	if key := topologyKey(object); key != "" {
		topology := simulate.Topology{NodeLabel: key}
		only, err := c.gangRunsIn(object, key, leaving)
		if err != nil {
			return nil, nil, err
		}
		if only != nil {
			topology.Values = []string{*only}
		}
		list = append(list, topology)
	}
	matches := slices.Concat(group.Constraints, group.Preferred)
	var held []*resourceapi.ResourceClaim
	if len(matches) > 0 {
		if held, err = c.heldBy(object, leaving); err != nil {
			return nil, nil, err
		}
	}
	for i, match := range matches {
		list = append(list, simulate.Topology{
			DeviceAttribute: match.MatchAttribute, Requests: match.Requests, Preferred: i >= len(group.Constraints),
			Values: gang.HeldInCommon(c.Ledger.State().Snapshot(), held, match.MatchAttribute, match.Requests),
		})
	}
	if len(group.MaxDistinct) > 0 {
		notLookedAt = append(notLookedAt, "maxDistinct of the PodGroup")
	}
	return list, notLookedAt, nil
}

// Companions are pods of a group that look for places, where the pods of the group must have something
// in common.
type Companions struct {
	Key  types.NamespacedName
	Pods []*corev1.Pod
	// Topologies are what they must have in common, with each other and with the other pods of the group
	// that run. NotLookedAt is what a simulation ignores of that.
	Topologies  []simulate.Topology
	NotLookedAt []string
}

// Companions lists the groups of pods whose pods must have something in common, in the order of the
// pods. The places that these pods have now do not count.
func (c *Cluster) Companions(pods []*corev1.Pod) []Companions {
	of := make(map[*schedulingapi.PodGroup]int)
	leaving := make(map[*corev1.Pod]bool, len(pods))
	var objects []*schedulingapi.PodGroup
	var list []Companions
	for _, pod := range pods {
		leaving[pod] = true
		object := c.groupOf(Workload{Pod: pod})
		if object == nil {
			continue
		}
		at, known := of[object]
		if !known {
			at = len(list)
			of[object], objects = at, append(objects, object)
			list = append(list, Companions{Key: keyOf(object)})
		}
		list[at].Pods = append(list[at].Pods, pod)
	}
	for i, object := range objects {
		var err error
		if list[i].Topologies, list[i].NotLookedAt, err = c.topologies(object, leaving); err != nil {
			list[i].NotLookedAt = []string{fmt.Sprintf("what the pods of its PodGroup must have in common (%v)", err)}
		}
	}
	return slices.DeleteFunc(list, func(c Companions) bool { return len(c.Topologies)+len(c.NotLookedAt) == 0 })
}

// HasCompanions reports whether a pod must have something in common with the other pods of its group.
// What is only preferred does not count.
func (c *Cluster) HasCompanions(pod *corev1.Pod) bool {
	object := c.groupOf(Workload{Pod: pod})
	if object == nil {
		return false
	}
	group, err := extension.GroupOf(object.Annotations)
	return err != nil || len(group.Constraints)+len(group.MaxDistinct) > 0 || topologyKey(object) != ""
}

// heldBy returns the claims of the pods of a group that run, without those that are leaving.
func (c *Cluster) heldBy(object *schedulingapi.PodGroup, leaving map[*corev1.Pod]bool) ([]*resourceapi.ResourceClaim, error) {
	var all []*resourceapi.ResourceClaim
	for _, pod := range c.pods {
		w := Workload{Pod: pod}
		if c.groupOf(w) != object || !nodefit.Occupies(pod) || leaving[pod] {
			continue
		}
		claims, err := c.claimsOf(w)
		if err != nil {
			return nil, err
		}
		all = append(all, claims...)
	}
	return all, nil
}

// gangDomain is a set of nodes on which all pods of a group may run.
type gangDomain struct {
	// topology is the label and value of the nodes. It is empty without a topology constraint.
	topology string
	nodes    []int
}

// topologyKey returns the label of a group's topology constraint, or an empty string.
func topologyKey(group *schedulingapi.PodGroup) string {
	constraints := group.Spec.SchedulingConstraints
	if constraints == nil || len(constraints.Topology) == 0 {
		return ""
	}
	return constraints.Topology[0].Key // the API permits at most one
}

// gangDomains divides nodes by the topology constraint of a group, in the order of their first
// nodes. Nodes without the label are in no domain. If pods of the group are running, there is only
// their domain. Without a constraint, there is one domain with all nodes.
func (c *Cluster) gangDomains(g Gang, nodes []*corev1.Node) ([]gangDomain, error) {
	key := topologyKey(g.object)
	if key == "" {
		all := gangDomain{}
		for n := range nodes {
			all.nodes = append(all.nodes, n)
		}
		return []gangDomain{all}, nil
	}
	only, err := c.gangRunsIn(g.object, key, nil)
	if err != nil {
		return nil, err
	}
	var list []gangDomain
	for n, node := range nodes {
		value, labelled := node.Labels[key]
		if !labelled || only != nil && value != *only {
			continue
		}
		topology := key + "=" + value
		at := slices.IndexFunc(list, func(d gangDomain) bool { return d.topology == topology })
		if at < 0 {
			at, list = len(list), append(list, gangDomain{topology: topology})
		}
		list[at].nodes = append(list[at].nodes, n)
	}
	return list, nil
}

// gangRunsIn returns the topology value of the nodes on which pods of a group are running, nil if
// there are none. Pods that are leaving do not count.
func (c *Cluster) gangRunsIn(object *schedulingapi.PodGroup, key string, leaving map[*corev1.Pod]bool) (*string, error) {
	var only *string
	for _, pod := range c.pods {
		if !nodefit.Occupies(pod) || c.groupOf(Workload{Pod: pod}) != object || leaving[pod] {
			continue
		}
		at := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName })
		if at < 0 {
			continue // the node of the pod is unknown
		}
		value, labelled := c.Nodes[at].Labels[key]
		switch {
		case !labelled:
			return nil, fmt.Errorf("spec.schedulingConstraints.topology[0].key: pod %s of the group runs on node %s, which lacks the label %s", pod.Name, pod.Spec.NodeName, key)
		case only != nil && *only != value:
			return nil, fmt.Errorf("spec.schedulingConstraints.topology[0].key: pods of the group run on nodes with %s=%s and %s=%s", key, *only, key, value)
		}
		only = &value
	}
	return only, nil
}

// ask asks about each domain. It prefers domains as kube-scheduler does: first those where the pods
// fit one after the other, then those where they fit together. Among these, it prefers the one with
// the most pods. If there is none, it takes the domain with the most places. The error says that
// claims cannot be allocated, or is the context's.
func (o *GangOutcome) ask(ctx context.Context, q gang.Question, domains []gangDomain) error {
	exact, open := true, false
	best := -1
	for _, d := range domains {
		within := q.Within(d.nodes)
		r, err := gang.Ask(ctx, within)
		if err != nil {
			return err
		}
		exact, open = exact && r.Exact, open || r.Verdict == allocator.NotDecided
		rank := r.Placed() // where enough fit, it is more than where too few do
		if r.Verdict == allocator.Satisfiable && r.OneByOne {
			rank += len(q.Pods)
		}
		if rank > best {
			best, o.Result, o.question, o.domain, o.Topology = rank, r, within, d.nodes, d.topology
		}
	}
	if o.Verdict != allocator.Satisfiable {
		o.Exact = exact
		if open {
			o.Verdict, o.Exact = allocator.NotDecided, false
		}
	}
	return nil
}
