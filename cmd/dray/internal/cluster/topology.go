// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate"
)

// Topologies returns what the pods of a group must have in common: labels in
// spec.schedulingConstraints, and attributes of devices in its annotation. notLookedAt has what the
// simulation ignores of that. It returns an error for an invalid annotation.
func (c *Cluster) Topologies(g Gang) (list []simulate.Topology, notLookedAt []string, err error) {
	group, err := extension.GroupOf(g.object.Annotations)
	if err != nil {
		return nil, nil, fmt.Errorf("PodGroup %s: %w", g.Key, err)
	}
	if constraints := g.object.Spec.SchedulingConstraints; constraints != nil {
		for _, one := range constraints.Topology {
			list = append(list, simulate.Topology{NodeLabel: one.Key})
		}
	}
	for _, match := range group.Constraints {
		list = append(list, simulate.Topology{DeviceAttribute: match.MatchAttribute, Requests: match.Requests})
	}
	for _, match := range group.Preferred {
		list = append(list, simulate.Topology{DeviceAttribute: match.MatchAttribute, Requests: match.Requests, Preferred: true})
	}
	if len(group.MaxDistinct) > 0 {
		notLookedAt = append(notLookedAt, "maxDistinct of the PodGroup")
	}
	if len(list) > 0 && c.runs(g) {
		notLookedAt = append(notLookedAt, "what pods of the PodGroup have that run already")
	}
	return list, notLookedAt, nil
}

// runs reports whether a pod of a group is running.
func (c *Cluster) runs(g Gang) bool {
	for _, pod := range c.pods {
		if nodefit.Occupies(pod) && c.groupOf(Workload{Pod: pod}) == g.object {
			return true
		}
	}
	return false
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
	only, err := c.gangRunsIn(g, key)
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
// there are none.
func (c *Cluster) gangRunsIn(g Gang, key string) (*string, error) {
	var only *string
	for _, pod := range c.pods {
		if !nodefit.Occupies(pod) || c.groupOf(Workload{Pod: pod}) != g.object {
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
		rank := r.Placed()
		if r.Verdict == allocator.Satisfiable {
			rank += len(q.Pods)
			if r.OneByOne {
				rank += len(q.Pods)
			}
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
